"""History: the commits behind a commit, and what a pull request brings, its commits and the files they change."""

import base64
import difflib
from dataclasses import dataclass, replace

from tools.fake_github.model.branches import file_at
from tools.fake_github.model.records import Commit, PullRequest, Repository


@dataclass(frozen=True, slots=True)
class FileDifference:
    """A file that a pull request changes: its base64 content without it and with it; None when there is no file."""

    path: str
    before: str | None
    after: str | None
    previous_path: str | None = None
    """Of a renamed file; only renames without another change are found here."""

    @property
    def status(self) -> str:
        """Return GitHub's word: added, removed, modified or renamed."""
        if self.previous_path is not None:
            return "renamed"
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "modified"

    @property
    def hunks(self) -> list[str]:
        """Return the lines of the patch, from its first `@@`."""
        return list(difflib.unified_diff(_lines(self.before), _lines(self.after), lineterm=""))[2:]

    @property
    def counts(self) -> tuple[int, int]:
        """Return the numbers of added and of deleted lines."""
        hunks = self.hunks
        return sum(line.startswith("+") for line in hunks), sum(line.startswith("-") for line in hunks)


def _lines(content: str | None) -> list[str]:
    return base64.b64decode(content or "").decode(errors="replace").splitlines()


def ancestors(repository: Repository, sha: str) -> set[str]:
    """Return a commit and all that it descends from."""
    waiting, seen = [sha], set()
    while waiting:
        current = waiting.pop()
        if current not in seen and current in repository.commits:
            seen.add(current)
            waiting.extend(repository.commits[current].parents)
    return seen


def history(repository: Repository, sha: str) -> list[Commit]:
    """Return a commit and all that it descends from, the newest first."""
    seen = ancestors(repository, sha)
    return [commit for commit in reversed(repository.commits.values()) if commit.sha in seen]


def commits_of(repository: Repository, pull: PullRequest) -> list[Commit]:
    """Return the commits that a pull request brings, the oldest first."""
    head = repository.commits[pull.head_sha]
    if head.parents == [pull.base_sha]:
        return [head]  # as nearly always; without a walk through the history
    there = ancestors(repository, _base(repository, pull))
    return [commit for commit in reversed(history(repository, pull.head_sha)) if commit.sha not in there]


def files_of(repository: Repository, pull: PullRequest) -> list[FileDifference]:
    """Return the files that differ between where a pull request left its base branch and its head, by path."""
    commits = commits_of(repository, pull)
    brought = {commit.sha for commit in commits}
    start: str | None = pull.head_sha
    while start in brought:
        parents = repository.commits[start].parents
        start = parents[0] if parents else None
    found = [
        FileDifference(path, file_at(repository, start, path) if start else None, _last(commits, path))
        for path in sorted({path for commit in commits for path in commit.files})
    ]
    return _with_renames([each for each in found if each.before != each.after])


def _with_renames(found: list[FileDifference]) -> list[FileDifference]:
    """Turn a removed and an added file of one content into a rename."""
    removed = {each.before: each for each in found if each.after is None}
    renames = {each.path: removed.pop(each.after) for each in found if each.before is None and each.after in removed}
    gone = {each.path for each in renames.values()}
    return [
        replace(each, before=each.after, previous_path=renames[each.path].path) if each.path in renames else each
        for each in found
        if each.path not in gone
    ]


def _base(repository: Repository, pull: PullRequest) -> str:
    """Return the commit of the base branch without the pull request."""
    if pull.merge_commit_sha is not None:
        return repository.commits[pull.merge_commit_sha].parents[0]
    return repository.branches.get(pull.base_ref, pull.base_sha)


def _last(commits: list[Commit], path: str) -> str | None:
    return next(commit.files[path] for commit in reversed(commits) if path in commit.files)
