"""Webhook payloads as typed refresh requests: what to read again from GitHub.

A payload may be late, duplicated, out of order or missing, so no decision depends on its content: a request names an
installation, a repository or branches to read again. Only what an App has written to a ruleset goes with the request
(`RulesetContent`), since nothing has to be read if it is ours. Unknown events and malformed payloads request nothing.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rules.rulesets.frozen_branches import NAME, fingerprint
from rules.webhook_log import Content

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_BRANCH_PREFIX = "refs/heads/"
_QUEUE = re.compile(r"gh-readonly-queue/(?P<base>.+)/[^/]+")
_NAME = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,300}")
_UNSTORABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_MAX_ID = 2**63 - 1
_MAX_BRANCH_LENGTH = 255
_MAX_TITLE_LENGTH = 500


@dataclass(frozen=True, slots=True)
class RulesetContent:
    """What an event says of a ruleset of frozen branches that an App has written."""

    ruleset_id: int
    fingerprint: str
    """`rules.rulesets.frozen_branches.fingerprint`"""


@dataclass(frozen=True, slots=True)
class InstallationRefresh:
    """Read this installation and its repositories again."""

    installation_id: int
    rules_changed: bool = False
    """A ruleset of the whole organisation was changed."""
    written: RulesetContent | None = None
    """What an App has written: if it is what we have written, nothing has to be read."""


@dataclass(frozen=True, slots=True)
class RepositoryRefresh:
    """Read this repository again: its name, owner, default branch and existence."""

    installation_id: int | None
    github_id: int
    rules_changed: bool = False
    """A ruleset or a branch protection of the repository was changed."""
    written: RulesetContent | None = None
    """What an App has written: if it is what we have written, nothing has to be read."""


@dataclass(frozen=True, slots=True)
class BranchRefresh:
    """Evaluate these branches again."""

    installation_id: int | None
    github_id: int
    """The repository's id."""
    names: frozenset[str]
    """Short names; empty means all watched branches, because the event does not name the target of its commit."""
    head_sha: str | None = None
    """A commit whose check must be read back and written again."""
    for_rules: bool = False
    """Only what rules of exceptions read has changed: nothing follows where none applies."""


@dataclass(frozen=True, slots=True)
class PullRequestState:
    """State of one pull request, used only for the order of writes."""

    installation_id: int | None
    github_id: int
    number: int
    base: str
    head_sha: str
    open: bool
    draft: bool
    auto_merge: bool
    title: str
    author: str | None


@dataclass(frozen=True, slots=True)
class RequestedAction:
    """The `requested_action` of a check run of ours: a person used its button.

    GitHub does not document who may: the payload proves who it was, and no permission.
    """

    installation_id: int | None
    github_id: int
    check_name: str
    head_sha: str
    identifier: str
    account_id: int
    """Of the person."""
    login: str


@dataclass(frozen=True, slots=True)
class FactsRefresh:
    """Read again what rules of exceptions ask for: the members of a team, or the labels of pull requests."""

    installation_id: int
    team_id: int | None = None
    """None: a label itself was changed, which GitHub does not count as a change of the pull requests that have it."""


RefreshRequest = (
    InstallationRefresh | RepositoryRefresh | BranchRefresh | PullRequestState | RequestedAction | FactsRefresh
)


class _MalformedPayloadError(Exception):
    """A field is missing or has a wrong type."""


def read_event(event: str, payload: Mapping[str, Any], *, app_id: int | None = None) -> list[RefreshRequest]:
    """Return the refresh requests of an event (`X-GitHub-Event`) with this payload. Raise nothing.

    With `app_id`, a check run of that app which another actor created or completed requests a refresh. Events about
    the app's own writes request nothing.
    """
    reader = _READERS.get(event)
    if reader is None:
        return []
    try:
        return reader(_Payload(payload, app_id))
    except _MalformedPayloadError:
        return []


def content_of(event: str, action: str | None) -> Content:
    """Return what a delivery of an event may say, before its payload is known."""
    if event == "check_run" and action in _WRITTEN:
        return "check"
    actions = _ACTIONS.get(event)
    return "request" if event in _READERS and (actions is None or action in actions) else "nothing"


@dataclass(frozen=True, slots=True)
class _Payload:
    """Typed access to untyped JSON. Raise `_MalformedPayloadError` for a missing or wrong field."""

    fields: Any
    app_id: int | None

    def part(self, *names: str) -> Any:
        found = self.fields
        for name in names:
            if not isinstance(found, Mapping):
                raise _MalformedPayloadError
            found = found.get(name)
        return found

    def id(self, *names: str) -> int:
        found = self.part(*names)
        if not isinstance(found, int) or isinstance(found, bool) or not 0 < found <= _MAX_ID:
            raise _MalformedPayloadError
        return found

    def text(self, *names: str) -> str:
        found = self.part(*names)
        if not isinstance(found, str) or _NAME.fullmatch(found) is None:
            raise _MalformedPayloadError
        return found

    def sha(self, *names: str) -> str:
        found = self.text(*names)
        if _SHA.fullmatch(found) is None:
            raise _MalformedPayloadError
        return found

    @property
    def action(self) -> str:
        return self.text("action")

    @property
    def installation_id(self) -> int | None:
        return None if self.part("installation") is None else self.id("installation", "id")

    @property
    def github_id(self) -> int:
        return self.id("repository", "id")

    def branches(self, *names: str, head_sha: str | None = None, for_rules: bool = False) -> BranchRefresh:
        return BranchRefresh(self.installation_id, self.github_id, frozenset(names), head_sha, for_rules)


def _installation(payload: _Payload) -> list[RefreshRequest]:
    return [InstallationRefresh(payload.id("installation", "id"))]


def _repository(payload: _Payload) -> list[RefreshRequest]:
    return [RepositoryRefresh(payload.installation_id, payload.github_id)]


def _rules(payload: _Payload) -> list[RefreshRequest]:
    written = _written_content(payload)
    if payload.part("repository") is None:
        return [InstallationRefresh(payload.id("installation", "id"), rules_changed=True, written=written)]
    return [RepositoryRefresh(payload.installation_id, payload.github_id, rules_changed=True, written=written)]


def _written_content(payload: _Payload) -> RulesetContent | None:
    """Return what an App has written, if it may be a ruleset of ours for frozen branches; what people do is none."""
    ruleset, sender = payload.part("repository_ruleset"), payload.part("sender")
    if not isinstance(ruleset, Mapping) or not isinstance(sender, Mapping) or sender.get("type") != "Bot":
        return None
    if payload.part("action") not in _RULESET_ACTIONS or not str(ruleset.get("name")).startswith(NAME):
        return None
    try:
        return RulesetContent(payload.id("repository_ruleset", "id"), fingerprint(ruleset))
    except (AttributeError, KeyError, TypeError, ValueError, _MalformedPayloadError):
        return None


_RULESET_ACTIONS = ("created", "edited")
_WRITTEN = {"created", "completed"}
_REQUESTED = {"rerequested", "requested_action"}
_LABEL_ACTIONS = {"edited", "deleted"}
_FACT_ACTIONS = {"labeled", "unlabeled"}
_PULL_ACTIONS = {
    "opened",
    "reopened",
    "synchronize",
    "closed",
    "ready_for_review",
    "converted_to_draft",
    "enqueued",
    "dequeued",
    "auto_merge_enabled",
    "auto_merge_disabled",
}


def _pull_request(payload: _Payload) -> list[RefreshRequest]:
    base = payload.text("pull_request", "base", "ref")
    state = _state_of(payload, base)
    if payload.action == "edited":
        retargeted = payload.part("changes", "base") is not None
        previous = payload.text("changes", "base", "ref", "from") if retargeted else base
        return [payload.branches(base, previous), state] if retargeted else [state]
    if payload.action in _FACT_ACTIONS:
        return [payload.branches(base, for_rules=True)]
    return [payload.branches(base), state] if payload.action in _PULL_ACTIONS else []


def _review(payload: _Payload) -> list[RefreshRequest]:
    return [payload.branches(payload.text("pull_request", "base", "ref"), for_rules=True)]


def _label(payload: _Payload) -> list[RefreshRequest]:
    return [FactsRefresh(payload.id("installation", "id"))] if payload.action in _LABEL_ACTIONS else []


def _team(payload: _Payload) -> list[RefreshRequest]:
    return [FactsRefresh(payload.id("installation", "id"), payload.id("team", "id"))]


def _state_of(payload: _Payload, base: str) -> PullRequestState:
    pull = _Payload(payload.part("pull_request"), None)
    title = pull.part("title")
    return PullRequestState(
        installation_id=payload.installation_id,
        github_id=payload.github_id,
        number=pull.id("number"),
        base=base,
        head_sha=pull.sha("head", "sha"),
        open=pull.part("state") == "open",
        draft=pull.part("draft") is True,
        auto_merge=pull.part("auto_merge") is not None,
        title=_UNSTORABLE.sub(" ", title[:_MAX_TITLE_LENGTH]) if isinstance(title, str) else "",
        author=None if pull.part("user") is None else pull.text("user", "login"),
    )


def _merge_group(payload: _Payload) -> list[RefreshRequest]:
    return [payload.branches(_branch_name(payload.text("merge_group", "base_ref")))]


def _push(payload: _Payload) -> list[RefreshRequest]:
    ref = payload.text("ref")
    if not ref.startswith(_BRANCH_PREFIX):
        return []
    name = _branch_name(ref)
    queued = _QUEUE.fullmatch(name)
    return [payload.branches(queued["base"] if queued else name)]


def _created_or_deleted(payload: _Payload) -> list[RefreshRequest]:
    return [payload.branches(_branch_name(payload.text("ref")))] if payload.part("ref_type") == "branch" else []


def _check_run(payload: _Payload) -> list[RefreshRequest]:
    requested = payload.action in _REQUESTED
    if not requested and not _written_by_another(payload):
        return []
    found: list[RefreshRequest] = [payload.branches(head_sha=payload.sha("check_run", "head_sha"))]
    pressed = payload.action == "requested_action" and payload.part("requested_action") is not None
    if pressed and _is_ours(payload):
        found.append(_requested_action(payload))
    return found


def _requested_action(payload: _Payload) -> RequestedAction:
    return RequestedAction(
        installation_id=payload.installation_id,
        github_id=payload.github_id,
        check_name=payload.text("check_run", "name"),
        head_sha=payload.sha("check_run", "head_sha"),
        identifier=payload.text("requested_action", "identifier"),
        account_id=payload.id("sender", "id"),
        login=payload.text("sender", "login"),
    )


def _written_by_another(payload: _Payload) -> bool:
    """True if another actor wrote a check run of our app; the app itself writes as its bot user."""
    if payload.action not in _WRITTEN or payload.app_id is None:
        return False
    if not _is_ours(payload):
        return False
    return payload.text("sender", "login") != payload.text("check_run", "app", "slug") + "[bot]"


def _is_ours(payload: _Payload) -> bool:
    """True if a check run belongs to our app."""
    return payload.part("check_run", "app") is not None and payload.id("check_run", "app", "id") == payload.app_id


def _check_suite(payload: _Payload) -> list[RefreshRequest]:
    if payload.action != "rerequested":
        return []
    return [payload.branches(head_sha=payload.sha("check_suite", "head_sha"))]


def _branch_name(ref: str) -> str:
    name = ref.removeprefix(_BRANCH_PREFIX)
    if not 0 < len(name) <= _MAX_BRANCH_LENGTH:
        raise _MalformedPayloadError
    return name


_ACTIONS = {
    "pull_request": {*_PULL_ACTIONS, *_FACT_ACTIONS, "edited"},
    "check_run": _REQUESTED,
    "label": _LABEL_ACTIONS,
    "check_suite": {"rerequested"},
}
"""The actions of an event that request something; without an entry: all."""
_READERS: dict[str, Callable[[_Payload], list[RefreshRequest]]] = {
    "installation": _installation,
    "installation_repositories": _installation,
    "installation_target": _installation,
    "repository": _repository,
    "repository_ruleset": _rules,
    "branch_protection_rule": _rules,
    "branch_protection_configuration": _rules,
    "pull_request": _pull_request,
    "pull_request_review": _review,
    "label": _label,
    "membership": _team,
    "team": _team,
    "merge_group": _merge_group,
    "push": _push,
    "create": _created_or_deleted,
    "delete": _created_or_deleted,
    "check_run": _check_run,
    "check_suite": _check_suite,
}
