"""Heads: commits that could be merged into watched branches, and every path on which each of them could be.

A check belongs to a commit and a name, not to a pull request: all pull requests and queue entries that share both are
one head, and are evaluated together. Heads are what the mirror has, and other commits on which a `success` may stand.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import LiteralString

from sqlalchemy import TextClause, text

from integrations.github import CheckState
from models.pull_requests import HeadCheck
from rules.freezes.check_names import is_pattern_check
from rules.freezes.merge_rank import GROUP, SUPERSEDED
from services.core.unit_of_work import UnitOfWork
from services.reconcile.leases import LeasedCheck

STALE_HASH = ""
"""The summary hash of a check whose text is to be written again, whatever GitHub shows."""


@dataclass(frozen=True, slots=True)
class HeadKey:
    """What a check is written on."""

    repository_id: str
    check_name: str
    sha: str

    @property
    def commit(self) -> tuple[str, str]:
        """Repository id and SHA: what the checks of all names are written on."""
        return self.repository_id, self.sha

    @property
    def of_pattern(self) -> bool:
        """Whether it is the check of a pattern, which its branches share."""
        return is_pattern_check(self.check_name)


def key_columns(keys: Iterable[HeadKey]) -> Mapping[str, list[str]]:
    """Return keys as the arrays that a statement takes."""
    listed = list(keys)
    return {
        "repositories": [key.repository_id for key in listed],
        "names": [key.check_name for key in listed],
        "shas": [key.sha for key in listed],
    }


@dataclass(frozen=True, slots=True)
class MergePath:
    """One path on which a head could be merged into a branch: a pull request, or an entry of its merge queue.

    `numbers` are all pull requests that would be merged with it; None if GitHub does not name them. A queue entry has a
    commit of its own, which is no pull request's head.
    """

    branch_id: str
    branch: str
    numbers: Sequence[int] | None
    queued: bool


@dataclass(slots=True)
class Head:
    """One head under one check name."""

    key: HeadKey
    check_id: int
    repository_node_id: str
    branch_id: str
    """Its branch; of a pattern's check, any of its branches."""
    organization_id: str
    rank: int
    paths: list[MergePath] = field(default_factory=list)
    """Empty for a head that was superseded: nothing can merge it now."""
    remote_check: CheckState | None = None
    """The check that GitHub shows, if it was read back."""
    read_back: bool = False
    recorded: HeadCheck | None = None
    """What we last wrote on it, as its last evaluation has read it."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The pull requests that would be merged with it, as far as they are known."""
        return tuple(sorted({number for path in self.paths for number in path.numbers or ()}))

    def show(self, shown: "ReadChecks") -> None:
        """Set what GitHub shows of its check, if its commit was read back."""
        if (checks := shown.get(self.key.commit)) is not None:
            self.read_back = True
            self.remote_check = next((check for check in checks if check.name == self.key.check_name), None)

    @property
    def unconfirmed(self) -> bool:
        """Whether GitHub may show something else than our record of it."""
        return self.recorded is not None and self.recorded.unconfirmed

    @property
    def conclusion(self) -> str | None:
        """The conclusion that GitHub shows, read back or as recorded; None if there is none or it is unconfirmed."""
        if self.read_back:
            remote = self.remote_check
            return remote.conclusion if remote is not None and remote.status == "completed" else None
        return None if self.recorded is None or self.recorded.unconfirmed else self.recorded.conclusion

    @property
    def text_hash(self) -> str | None:
        """The hash of the text that GitHub shows, read back or as recorded; a recorded `STALE_HASH` goes first."""
        recorded = None if self.recorded is None else self.recorded.summary_hash
        if self.remote_check is None or recorded == STALE_HASH:
            return recorded
        return hash_in(self.remote_check) or recorded


def external_id(branch_id: str, evaluation: int, text_hash: str) -> str:
    """Return the external id of a check: on account of which branch and by which evaluation, and its summary hash."""
    return f"{branch_id}/{evaluation}/{text_hash}"


def hash_in(check: CheckState) -> str | None:
    """Return the summary hash in a check's external id, or None if it has none."""
    parts = (check.external_id or "").split("/")
    return parts[2] if len(parts) == 3 else None


ReadChecks = Mapping[tuple[str, str], Sequence[CheckState]]
"""The checks that GitHub shows, by repository id and commit: of what was read back."""


# Queues from back to front: GitHub restarts what stands behind an entry that fails.
def _paths(commits: LiteralString, superseded: LiteralString = "") -> TextClause:
    return text(f"""
        WITH covered AS MATERIALIZED (
            SELECT c.id AS check_id, b.id, b.repository_id, b.name
            FROM checks c JOIN watched_branches b ON b.id = c.branch_id WHERE c.id = ANY(:checks)
            UNION ALL
            SELECT c.id, b.id, b.repository_id, b.name
            FROM checks c JOIN watched_branches b
                 ON b.repository_id = c.repository_id AND b.pattern_check_name = c.name
            WHERE c.id = ANY(:checks) AND c.branch_id IS NULL
        )
        SELECT covered.check_id, p.head_sha, p.merge_rank, covered.id, covered.name, ARRAY[p.number], false, 0
        FROM covered JOIN pull_requests p ON p.repository_id = covered.repository_id
             AND p.base_branch = covered.name AND p.state = 'open' {commits.format(table="p")}
        UNION ALL
        SELECT covered.check_id, q.head_sha, {GROUP}, covered.id, covered.name, q.numbers, true, q.position
        FROM covered JOIN queue_entries q ON q.branch_id = covered.id {commits.format(table="q")} {superseded}
        ORDER BY 1, 8 DESC, 6
    """)  # noqa: S608 - constants of ours


_PATHS_OF_COMMITS = _paths("AND {table}.head_sha = ANY(:commits)")
_ALL_PATHS = _paths(
    "",
    f"""
        UNION ALL
        SELECT c.id, h.head_sha, {SUPERSEDED}, h.branch_id, NULL, NULL, false, -1
        FROM checks c JOIN head_checks h ON h.repository_id = c.repository_id AND h.check_name = c.name
        WHERE c.id = ANY(:checks) AND (h.conclusion = 'success' OR h.unconfirmed)
    """,  # noqa: S608 - a constant of ours
)
"""Every path, and then each commit on which a `success` may stand: superseded, if it has none."""


def heads_of(uow: UnitOfWork, checks: Collection[LeasedCheck], shown: ReadChecks) -> list[Head]:
    """Return the heads of checks, with their paths as mirrored now, and the superseded ones that may show `success`.

    `shown` are the checks that were read back.
    """
    by_id = {check.id: check for check in checks}
    heads: dict[HeadKey, Head] = {}
    for check_id, sha, rank, branch_id, *path, _position in uow.session.execute(_ALL_PATHS, {"checks": list(by_id)}):
        head = _head(heads, by_id[check_id], sha, branch_id)
        head.rank = min(head.rank, rank)
        if rank != SUPERSEDED:
            head.paths.append(MergePath(branch_id, *path))
    for head in heads.values():
        head.show(shown)
    return list(heads.values())


def read_paths_again(uow: UnitOfWork, heads: Sequence[Head]) -> Sequence[Head]:
    """Replace the paths of heads by those that are mirrored now, and return the heads."""
    listed = {(head.check_id, head.key.sha): head for head in heads}
    for head in listed.values():
        head.paths = []
    values = {"checks": [pair[0] for pair in listed], "commits": [pair[1] for pair in listed]}
    for check_id, sha, _rank, *path, _position in uow.session.execute(_PATHS_OF_COMMITS, values):
        if (check_id, sha) in listed:
            listed[check_id, sha].paths.append(MergePath(*path))
    return heads


def _head(heads: dict[HeadKey, Head], check: LeasedCheck, sha: str, branch_id: str) -> Head:
    key = HeadKey(check.repository_id, check.name, sha)
    if key not in heads:
        heads[key] = Head(key, check.id, check.repository_node_id, branch_id, check.organization_id, SUPERSEDED)
    return heads[key]
