"""Reading what may be merged: the open pull requests and merge-queue entries of many branches at once."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from integrations.github import queries
from integrations.github.answers import reading
from integrations.github.calls import Calls
from integrations.github.errors import GitHubError
from integrations.github.graphql import Data
from integrations.github.pages import WHOLE, Listing, all_pages, no_repository, repository_from_graphql, target_of
from integrations.github.readback import read_back
from integrations.github.values import BranchHeads, BranchRef, PullHead, QueueEntry


@dataclass(frozen=True, slots=True)
class _Group:
    """Branches of one name, asked for by one `nodes(ids:)`."""

    name: str
    ids: tuple[str, ...]


_PULLS = Listing(queries.PULLS_PAGE, ("pullRequests",))
_ENTRIES = Listing(queries.ENTRIES_PAGE, ("mergeQueue", "entries"))


def open_heads(
    calls: Calls,
    wanted: Sequence[BranchRef],
    read_back_app_id: int | None,
    check_names: Collection[str] | None,
    between: Callable[[], object],
) -> list[BranchHeads]:
    """Return the heads of every wanted branch, in the order wanted; see `InstallationClient.open_heads`."""
    found: dict[BranchRef, BranchHeads] = {}
    for heads in _ask(calls, _grouped(wanted)):
        found[BranchRef(heads.repository_node_id, heads.name)] = heads
    answered = [found[ref] for ref in wanted]
    if read_back_app_id is None:
        return answered
    return read_back(calls, answered, read_back_app_id, check_names, between)


def _grouped(wanted: Sequence[BranchRef]) -> list[_Group]:
    groups: dict[str, dict[str, None]] = {}
    for ref in wanted:
        groups.setdefault(ref.name, {})[ref.repository_node_id] = None
    return [_Group(name, tuple(ids)) for name, ids in groups.items()]


def _ask(calls: Calls, groups: Sequence[_Group]) -> Iterable[BranchHeads]:
    """Ask once for all; a group that came back null as a whole is asked for again one by one, so none hides another."""
    if not groups:
        return
    variables: dict[str, Any] = {}
    for number, group in enumerate(groups):
        variables |= {f"i{number}": group.ids, f"b{number}": group.name, f"q{number}": f"refs/heads/{group.name}"}
    data = calls.query(queries.heads(len(groups)), variables)
    for number, group in enumerate(groups):
        nodes = data.fields.get(f"g{number}")
        if isinstance(nodes, list) and len(nodes) == len(group.ids):
            for index, node in enumerate(nodes):
                ref = BranchRef(group.ids[index], group.name)
                yield _branch(calls, ref, node, data, (f"g{number}", index))
        elif len(group.ids) > 1:
            for node_id in group.ids:
                yield from _alone(calls, _Group(group.name, (node_id,)))
        else:
            yield _missing(BranchRef(group.ids[0], group.name), data.fault_at(f"g{number}"))


def _alone(calls: Calls, group: _Group) -> Iterable[BranchHeads]:
    try:
        yield from _ask(calls, [group])
    except GitHubError as error:
        if error.kind in WHOLE:
            raise
        yield _missing(BranchRef(group.ids[0], group.name), error)


def _missing(ref: BranchRef, error: GitHubError | None) -> BranchHeads:
    return BranchHeads(ref.repository_node_id, ref.name, None, error=error or no_repository())


def _branch(calls: Calls, ref: BranchRef, node: Any, data: Data, place: tuple[str, int]) -> BranchHeads:
    if not isinstance(node, dict) or "databaseId" not in node:
        return _missing(ref, data.fault_at(*place))
    try:
        with reading():
            repository = repository_from_graphql(node)
    except GitHubError as error:
        return _missing(ref, error)
    heads = BranchHeads(ref.repository_node_id, ref.name, repository, sha=target_of(node.get("ref")))
    heads = _with_pulls(calls, heads, node.get("pullRequests"), data.fault_at(*place, "pullRequests"))
    queue, fault = node.get("mergeQueue"), data.fault_at(*place, "mergeQueue")
    if queue is None:
        return heads if fault is None else replace(heads, queue_error=fault)
    return _with_queue(calls, heads, queue.get("entries") if isinstance(queue, dict) else None, fault)


def _with_pulls(calls: Calls, heads: BranchHeads, first: Any, fault: GitHubError | None) -> BranchHeads:
    try:
        with reading():
            nodes = all_pages(calls, _PULLS, _variables(heads), first, fault)
            return replace(heads, pulls=tuple(_pull(node) for node in nodes))
    except GitHubError as error:
        if error.kind in WHOLE:
            raise
        return replace(heads, error=error)


def _with_queue(calls: Calls, heads: BranchHeads, first: Any, fault: GitHubError | None) -> BranchHeads:
    try:
        with reading():
            nodes = all_pages(calls, _ENTRIES, _variables(heads), first, fault)
            return replace(heads, queue=tuple(sorted(map(_entry, nodes), key=lambda entry: entry.position)))
    except GitHubError as error:
        if error.kind in WHOLE:
            raise
        return replace(heads, queue_error=error)


def _variables(heads: BranchHeads) -> Mapping[str, str]:
    return {"id": heads.repository_node_id, "branch": heads.name}


def _pull(node: Mapping[str, Any]) -> PullHead:
    decision = node.get("reviewDecision")
    return PullHead(
        number=int(node["number"]),
        node_id=str(node["id"]),
        title=str(node["title"]).replace("\x00", ""),  # a person's free text, and PostgreSQL stores no NUL
        url=str(node["url"]),
        author=(node.get("author") or {}).get("login"),
        head_sha=str(node["headRefOid"]),
        head_ref=str(node["headRefName"]),
        base_ref=str(node["baseRefName"]),
        draft=bool(node["isDraft"]),
        auto_merge=node.get("autoMergeRequest") is not None,
        review_decision=decision.lower() if isinstance(decision, str) else None,
        in_queue=bool(node["isInMergeQueue"]),
    )


def _entry(node: Mapping[str, Any]) -> QueueEntry:
    return QueueEntry(
        position=int(node["position"]),
        pull_number=(node.get("pullRequest") or {}).get("number"),
        head_sha=target_of({"target": node.get("headCommit")}),
        state=str(node["state"]).lower(),
    )
