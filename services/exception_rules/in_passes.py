"""Rules in a pass of the reconciler: which pull requests are judged."""

from collections.abc import Collection, Sequence

from sqlalchemy import and_, select

from integrations.github import BranchHeads
from models.exceptions import PullRequestException
from models.pull_requests import PullRequest
from models.queries import is_one_of
from models.repositories import WatchedBranch
from services.core.savepoints import in_savepoint
from services.core.unit_of_work import UnitOfWork
from services.exception_rules.applicable import freezes_of, ruled_branches
from services.exception_rules.facts import JudgedPull

_PULLS = (
    select(WatchedBranch.id, PullRequest)
    .join(
        PullRequest,
        and_(PullRequest.repository_id == WatchedBranch.repository_id, PullRequest.base_branch == WatchedBranch.name),
    )
    .where(is_one_of(WatchedBranch.id, "branches"), PullRequest.state == "open")
    .execution_options(populate_existing=True)
)
_EXCEPTED = select(
    PullRequestException.branch_id,
    PullRequestException.pull_request_id,
    PullRequestException.freeze_id,
    PullRequestException.rule_name,
).where(
    is_one_of(PullRequestException.freeze_id, "freezes"),
    is_one_of(PullRequestException.branch_id, "branches"),
    PullRequestException.is_open,
    PullRequestException.decision == "granted",
)


def judged_pulls(
    uow: UnitOfWork, heads: Sequence[tuple[str, BranchHeads]], read_back: Collection[str]
) -> list[JudgedPull]:
    """Return the pull requests of branches, as just mirrored, that rules have to judge, the most urgent first.

    On the branches `read_back`, what was read before is not to be trusted. Nothing if exceptions cannot be read: then
    none of them allows anything.
    """
    found = in_savepoint(
        uow.session,
        lambda: _find(uow, heads, read_back),
        otherwise=list[JudgedPull],
        failure="exception rules cannot be read; none is applied",
    )
    return sorted(found, key=lambda pull: pull.urgency)


def _find(uow: UnitOfWork, heads: Sequence[tuple[str, BranchHeads]], read_back: Collection[str]) -> list[JudgedPull]:
    ruled = {found.branch.id: found for found in ruled_branches(uow, [branch_id for branch_id, _found in heads])}
    if not ruled:
        return []
    values = {"branches": list(ruled), "freezes": freezes_of(ruled.values())}
    excepted, let_in = set(), set()
    for on_branch, pull_id, freeze_id, rule_name in uow.session.execute(_EXCEPTED, values):
        if rule_name is None:
            excepted.add((on_branch, pull_id, freeze_id))
        else:
            let_in.add((on_branch, pull_id))
    mirrored = {(branch_id, pull.number): pull for branch_id, pull in uow.session.execute(_PULLS, values)}
    judged: list[JudgedPull] = []
    for branch_id, found in heads:
        for head in found.pulls if branch_id in ruled else ():
            pull = mirrored.get((branch_id, head.number))
            if pull is None or pull.head_sha != head.head_sha or pull.head_since is None:
                continue
            branch = ruled[branch_id]
            if all((branch_id, pull.id, freeze_id) in excepted for freeze_id in branch.rules):
                continue
            judged.append(
                JudgedPull(
                    id=pull.id,
                    branch=branch,
                    number=pull.number,
                    node_id=head.node_id,
                    head_sha=pull.head_sha,
                    head_since=pull.head_since,
                    updated_at=head.updated_at,
                    found_at=uow.now,
                    trusts_kept=branch_id not in read_back,
                    rank=pull.merge_rank,
                    is_let_in=(branch_id, pull.id) in let_in,
                )
            )
    return judged
