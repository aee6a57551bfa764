"""Webhook payloads as typed hints: what to look at again, never what is true.

A payload may be late, doubled, out of order or missing, so nothing here carries a decision: a hint names an
installation, a repository or branches that are worth reading again. An event that is not understood, or whose fields
are not what they should be, is no hint at all.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_HEADS = "refs/heads/"
_QUEUE = re.compile(r"gh-readonly-queue/(?P<base>.+)/[^/]+")
_NAME = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,300}")
_UNSTORABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_LARGEST_ID = 2**63 - 1
_LONGEST_BRANCH = 255
_LONGEST_TITLE = 500


@dataclass(frozen=True, slots=True)
class InstallationHint:
    """Read this installation and its repositories again."""

    installation_id: int
    rules_changed: bool = False
    """A ruleset of the whole organisation was changed."""


@dataclass(frozen=True, slots=True)
class RepositoryHint:
    """Read this repository again: its name, owner, default branch, or whether it is there at all."""

    installation_id: int | None
    github_id: int
    rules_changed: bool = False
    """A ruleset or a branch protection of the repository was changed."""


@dataclass(frozen=True, slots=True)
class BranchHint:
    """Judge these branches again."""

    installation_id: int | None
    github_id: int
    """The repository's id."""
    names: frozenset[str]
    """Short names; empty: every watched branch, for the event does not tell where its commit may be merged."""
    head_sha: str | None = None
    """A commit whose check is to be written again, even if we believe that it is right."""


@dataclass(frozen=True, slots=True)
class PullRequestHint:
    """Facts about one pull request that are good enough to order writes by."""

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

    Only GitHub sends this, for persons who may write to the repository.
    """

    installation_id: int | None
    github_id: int
    check_name: str
    head_sha: str
    identifier: str
    login: str


Hint = InstallationHint | RepositoryHint | BranchHint | PullRequestHint | RequestedAction


class _OddError(Exception):
    """A field is missing or not what it should be."""


def read_event(event: str, payload: Mapping[str, Any], *, app_id: int | None = None) -> list[Hint]:
    """Return what the event `X-GitHub-Event` with this payload asks to be looked at; never raises.

    With `app_id`, a check run of that app which somebody else created or completed is a hint too; the app's own
    writes come back as events as well, and are none.
    """
    reader = _READERS.get(event)
    if reader is None:
        return []
    try:
        return reader(_Payload(payload, app_id))
    except _OddError:
        return []


@dataclass(frozen=True, slots=True)
class _Payload:
    """Typed access to untyped JSON: every wrong or missing field is an `_OddError`."""

    fields: Any
    app_id: int | None

    def part(self, *names: str) -> Any:
        found = self.fields
        for name in names:
            if not isinstance(found, Mapping):
                raise _OddError
            found = found.get(name)
        return found

    def id(self, *names: str) -> int:
        found = self.part(*names)
        if not isinstance(found, int) or isinstance(found, bool) or not 0 < found <= _LARGEST_ID:
            raise _OddError
        return found

    def text(self, *names: str) -> str:
        found = self.part(*names)
        if not isinstance(found, str) or _NAME.fullmatch(found) is None:
            raise _OddError
        return found

    def sha(self, *names: str) -> str:
        found = self.text(*names)
        if _SHA.fullmatch(found) is None:
            raise _OddError
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

    def branches(self, *names: str, head_sha: str | None = None) -> BranchHint:
        return BranchHint(self.installation_id, self.github_id, frozenset(names), head_sha)


def _installation(payload: _Payload) -> list[Hint]:
    return [InstallationHint(payload.id("installation", "id"))]


def _repository(payload: _Payload) -> list[Hint]:
    return [RepositoryHint(payload.installation_id, payload.github_id)]


def _rules(payload: _Payload) -> list[Hint]:
    if payload.part("repository") is None:
        return [InstallationHint(payload.id("installation", "id"), rules_changed=True)]
    return [RepositoryHint(payload.installation_id, payload.github_id, rules_changed=True)]


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


def _pull_request(payload: _Payload) -> list[Hint]:
    base = payload.text("pull_request", "base", "ref")
    facts = _facts(payload, base)
    if payload.action == "edited":
        retargeted = payload.part("changes", "base") is not None
        previous = payload.text("changes", "base", "ref", "from") if retargeted else base
        return [payload.branches(base, previous), facts] if retargeted else [facts]
    return [payload.branches(base), facts] if payload.action in _PULL_ACTIONS else []


def _facts(payload: _Payload, base: str) -> PullRequestHint:
    pull = _Payload(payload.part("pull_request"), None)
    title = pull.part("title")
    return PullRequestHint(
        installation_id=payload.installation_id,
        github_id=payload.github_id,
        number=pull.id("number"),
        base=base,
        head_sha=pull.sha("head", "sha"),
        open=pull.part("state") == "open",
        draft=pull.part("draft") is True,
        auto_merge=pull.part("auto_merge") is not None,
        title=_UNSTORABLE.sub(" ", title[:_LONGEST_TITLE]) if isinstance(title, str) else "",
        author=None if pull.part("user") is None else pull.text("user", "login"),
    )


def _merge_group(payload: _Payload) -> list[Hint]:
    return [payload.branches(_short(payload.text("merge_group", "base_ref")))]


def _push(payload: _Payload) -> list[Hint]:
    ref = payload.text("ref")
    if not ref.startswith(_HEADS):
        return []
    name = _short(ref)
    queued = _QUEUE.fullmatch(name)
    return [payload.branches(queued["base"] if queued else name)]


def _created_or_deleted(payload: _Payload) -> list[Hint]:
    return [payload.branches(_short(payload.text("ref")))] if payload.part("ref_type") == "branch" else []


def _check_run(payload: _Payload) -> list[Hint]:
    asked = payload.action in {"rerequested", "requested_action"}
    if not asked and not _written_by_another(payload):
        return []
    found: list[Hint] = [payload.branches(head_sha=payload.sha("check_run", "head_sha"))]
    pressed = payload.action == "requested_action" and payload.part("requested_action") is not None
    if pressed and _is_ours(payload):
        found.append(_button(payload))
    return found


def _button(payload: _Payload) -> RequestedAction:
    return RequestedAction(
        installation_id=payload.installation_id,
        github_id=payload.github_id,
        check_name=payload.text("check_run", "name"),
        head_sha=payload.sha("check_run", "head_sha"),
        identifier=payload.text("requested_action", "identifier"),
        login=payload.text("sender", "login"),
    )


def _written_by_another(payload: _Payload) -> bool:
    """Tell whether somebody else touched a check of our app; the app's own writes are by its bot user."""
    if payload.action not in {"created", "completed"} or payload.app_id is None:
        return False
    if not _is_ours(payload):
        return False
    return payload.text("sender", "login") != payload.text("check_run", "app", "slug") + "[bot]"


def _is_ours(payload: _Payload) -> bool:
    """Tell whether a check run is of the app that we are."""
    return payload.part("check_run", "app") is not None and payload.id("check_run", "app", "id") == payload.app_id


def _check_suite(payload: _Payload) -> list[Hint]:
    if payload.action != "rerequested":
        return []
    return [payload.branches(head_sha=payload.sha("check_suite", "head_sha"))]


def _short(ref: str) -> str:
    name = ref.removeprefix(_HEADS)
    if not 0 < len(name) <= _LONGEST_BRANCH:
        raise _OddError
    return name


_READERS: dict[str, Callable[[_Payload], list[Hint]]] = {
    "installation": _installation,
    "installation_repositories": _installation,
    "installation_target": _installation,
    "repository": _repository,
    "repository_ruleset": _rules,
    "branch_protection_rule": _rules,
    "branch_protection_configuration": _rules,
    "pull_request": _pull_request,
    "merge_group": _merge_group,
    "push": _push,
    "create": _created_or_deleted,
    "delete": _created_or_deleted,
    "check_run": _check_run,
    "check_suite": _check_suite,
}
