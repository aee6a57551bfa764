"""What rules of exceptions read of pull requests, teams and accounts; see `rules/exceptions/facts.py`.

Sources: GitHub's GraphQL schema (`fact_queries`), and of its REST API "List pull requests files" (3,000 at most), "List
commits on a pull request" (250 at most), "List repository activities" (contents:read) and "List team members"
(members:read).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any
from urllib.parse import parse_qs, urlsplit

from integrations.github.calls import Calls, path
from integrations.github.errors import ErrorKind, GitHubError
from integrations.github.fact_queries import FACTS
from integrations.github.graphql import Data
from integrations.github.responses import parsing
from integrations.github.transport import unavailable
from rules.exceptions.facts import (
    MAX_COMMITS,
    MAX_FILES,
    MAX_PUSHES,
    Approval,
    ChangedFile,
    ChangedFiles,
    Commit,
    GitHubAccount,
    Label,
    RuleFacts,
    Unknown,
)

GITHUB_AS_COMMITTER = "web-flow"
"""The account that commits, and signs, what people and Apps do through GitHub."""
_ONE_NAME = {"ADDED", "CHANGED", "DELETED", "MODIFIED"}
"""How a file is changed that has no former name."""
_TWO_NAMES = {"renamed", "copied"}
_TOO_MANY_FILES = Unknown(f"GitHub lists {MAX_FILES:,} files of a pull request, and it changes more")
_NOT_FOUND = GitHubError(ErrorKind.NOT_FOUND, "GitHub has no pull request with that id")


@dataclass(frozen=True, slots=True)
class FactKinds:
    """What is read of pull requests besides what is always read."""

    files: bool = False
    labels: bool = False
    approvals: bool = False

    def include(self, other: "FactKinds") -> bool:
        """True if everything that the other reads is read."""
        pairs = ((self.files, other.files), (self.labels, other.labels), (self.approvals, other.approvals))
        return all(mine or not theirs for mine, theirs in pairs)


def team_members(calls: Calls, organization_id: int, team: int) -> frozenset[int]:
    """Return the ids of a team's members; see `InstallationClient.team_members`."""
    listed = calls.get_lists(path("organizations", organization_id, "team", team, "members"))
    with parsing():
        return frozenset(int(member["id"]) for member in listed)


def all_files(calls: Calls, owner: str, name: str, number: int, head_sha: str, expected: int) -> ChangedFiles | Unknown:
    """Return all files of a pull request; see `InstallationClient.all_files`."""
    if expected > MAX_FILES:
        return _TOO_MANY_FILES
    listed = list(calls.get_lists(path("repos", owner, name, "pulls", number, "files")))
    with parsing():
        if any(_head_of(file) != head_sha for file in listed):
            return Unknown("the head was pushed meanwhile")
        if len(listed) != expected:
            return Unknown(f"GitHub lists {len(listed):,} files of {expected:,}")
        return ChangedFiles(tuple(_file(file) for file in listed), complete=True)


def _head_of(file: Mapping[str, Any]) -> str:
    """Return the head that a file is listed of, which only the address of its content says."""
    return str(parse_qs(urlsplit(file["contents_url"]).query)["ref"][0])


def _file(file: Mapping[str, Any]) -> ChangedFile:
    previous = file["previous_filename"] if file["status"] in _TWO_NAMES else file.get("previous_filename")
    return ChangedFile(str(file["filename"]), None if previous is None else str(previous))


def commits_of(calls: Calls, owner: str, name: str, number: int, head_sha: str) -> tuple[Commit, ...] | Unknown:
    """Return the commits of a pull request; see `InstallationClient.commits_of`."""
    with parsing():
        listed = [_commit(entry) for entry in calls.get_lists(path("repos", owner, name, "pulls", number, "commits"))]
    if len(listed) >= MAX_COMMITS:
        return Unknown(f"GitHub lists {MAX_COMMITS} commits of a pull request, and it may have more")
    if head_sha not in {commit.sha for commit in listed}:
        return Unknown("the head was pushed meanwhile")
    return tuple(listed)


def _commit(entry: Mapping[str, Any]) -> Commit:
    author, committer = entry["author"] or {}, entry["committer"] or {}
    verified = entry["commit"]["verification"]["verified"] is True
    by_github = verified and committer.get("login") == GITHUB_AS_COMMITTER
    author_id, committer_id = author.get("id"), committer.get("id")
    signed_by = author_id if by_github else committer_id
    return Commit(str(entry["sha"]), author_id, committer_id, signed_by if verified else None, by_github=by_github)


def pushers_of(calls: Calls, owner: str, name: str, branch: str) -> frozenset[int] | Unknown:
    """Return who pushed to a branch since it was made; see `InstallationClient.pushers_of`."""
    with parsing():
        listed = calls.get_lists(path("repos", owner, name, "activity"), ref=f"refs/heads/{branch}")
        pushes = [(entry["activity_type"], entry["actor"]) for entry in islice(listed, MAX_PUSHES)]
        made = next((place for place, (how, _actor) in enumerate(pushes) if how == "branch_creation"), None)
        if made is None and len(pushes) == MAX_PUSHES:
            return Unknown(f"the branch of its head was pushed more than {MAX_PUSHES} times")
        return frozenset(int(actor["id"]) for _how, actor in pushes[: None if made is None else made + 1] if actor)


def rule_facts(calls: Calls, node_ids: Sequence[str], kinds: FactKinds) -> list[RuleFacts | GitHubError]:
    """Return the facts of pull requests; see `InstallationClient.rule_facts`."""
    variables = {"files": kinds.files, "labels": kinds.labels, "approvals": kinds.approvals}
    data = calls.query(FACTS, {"ids": list(node_ids), **variables})
    nodes = data.fields.get("nodes")
    if not isinstance(nodes, list) or len(nodes) != len(node_ids):
        raise unavailable("sent an incomplete list", maybe_applied=False)
    return [_facts_or_error(node, kinds, data, index) for index, node in enumerate(nodes)]


def _facts_or_error(node: Any, kinds: FactKinds, data: Data, index: int) -> RuleFacts | GitHubError:
    error = data.error_at("nodes", index)
    if error is not None or not node:
        return error or _NOT_FOUND
    try:
        with parsing():
            return _facts(node, kinds)
    except GitHubError as unreadable:
        return unreadable


def _facts(node: Mapping[str, Any], kinds: FactKinds) -> RuleFacts:
    changes = node["changes"]["nodes"]
    not_read = Unknown("no rule reads it")
    author = _account(node["author"])
    return RuleFacts(
        number=int(node["number"]),
        head_sha=str(node["headRefOid"]),
        base=str(node["baseRefName"]),
        updated_at=_instant(node["updatedAt"]),
        author=author if author is not None else Unknown("the author's account is gone"),
        same_repository=node["isCrossRepository"] is False,
        head_branch=str(node["headRefName"]),
        changed_lines=int(node["additions"]) + int(node["deletions"]),
        changed_files=int(node["changedFiles"]),
        files=_files(node) if kinds.files else not_read,
        labels=_labels(node["labels"], node["labeled"]["nodes"]) if kinds.labels else not_read,
        approvals=_approvals(node["latestOpinionatedReviews"]) if kinds.approvals else not_read,
        pushed_by=None if node["isCrossRepository"] is False else frozenset(),
        forced_by=frozenset(
            actor.id
            for event in changes
            if event["__typename"] == "HeadRefForcePushedEvent" and (actor := _account(event["actor"])) is not None
        ),
        changed_at=max((_instant(event["createdAt"]) for event in changes), default=None),
    )


def _files(node: Mapping[str, Any]) -> ChangedFiles | Unknown:
    if int(node["changedFiles"]) > MAX_FILES:
        return _TOO_MANY_FILES
    if node["files"] is None:
        return Unknown("GitHub does not list its files")
    listed = node["files"]["nodes"]
    one_name = all(file["changeType"] in _ONE_NAME for file in listed)
    complete = one_name and len(listed) == int(node["changedFiles"]) and not node["files"]["pageInfo"]["hasNextPage"]
    return ChangedFiles(tuple(ChangedFile(str(file["path"])) for file in listed), complete)


def _labels(labels: Any, events: Sequence[Mapping[str, Any]]) -> tuple[Label, ...] | Unknown:
    if labels is None or labels["pageInfo"]["hasNextPage"]:
        return Unknown("GitHub does not list all of its labels")
    set_last = {event["label"]["name"]: event for event in events}
    return tuple(_label(label, set_last.get(label["name"])) for label in labels["nodes"])


def _label(label: Mapping[str, Any], event: Mapping[str, Any] | None) -> Label:
    changed = label["updatedAt"]
    return Label(
        name=str(label["name"]),
        set_by=None if event is None else _account(event["actor"]),
        set_at=None if event is None else _instant(event["createdAt"]),
        changed_at=None if changed in {None, label["createdAt"]} else _instant(changed),
    )


def _approvals(reviews: Any) -> tuple[Approval, ...] | Unknown:
    if reviews is None or reviews["pageInfo"]["hasNextPage"]:
        return Unknown("GitHub does not list all of its reviews")
    found = [
        (_account(review["author"]), review["commit"], review["submittedAt"])
        for review in reviews["nodes"]
        if review["state"] == "APPROVED"
    ]
    return tuple(
        Approval(account, str(commit["oid"]), _instant(submitted_at))
        for account, commit, submitted_at in found
        if account is not None and commit is not None and submitted_at is not None
    )


def _account(actor: Mapping[str, Any] | None) -> GitHubAccount | None:
    """Return an actor as an account; None if GitHub gives no id of it. The login of a bot has no suffix in GraphQL."""
    if actor is None or actor.get("databaseId") is None:
        return None
    login = str(actor["login"])
    return GitHubAccount(int(actor["databaseId"]), f"{login}[bot]" if actor["__typename"] == "Bot" else login)


def _instant(given: str) -> datetime:
    found = datetime.fromisoformat(given)
    if found.tzinfo is None:
        raise ValueError("an instant without an offset")
    return found
