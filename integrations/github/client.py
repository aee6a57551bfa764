"""What can be read and written for one installation of the App."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

from integrations.github import checks, heads, rulesets, tips
from integrations.github.activity import Activity, PullOfCommit, list_activity, list_pulls_of_commit
from integrations.github.answers import reading
from integrations.github.budget import Budget
from integrations.github.calls import Ahead, Calls, path
from integrations.github.errors import ErrorKind, GitHubError
from integrations.github.rules import BranchRules, RulesetDetails, read_branches, read_rulesets
from integrations.github.values import (
    BranchHeads,
    BranchInfo,
    BranchRef,
    CheckResult,
    CheckState,
    CheckWrite,
    RepositoryInfo,
    RepositoryTips,
    branch_from_rest,
    repository_from_rest,
)


class InstallationClient:
    """GitHub, seen by one installation. Every method may raise `GitHubError`; safe for many threads."""

    def __init__(self, installation_id: int, calls: Calls) -> None:
        self.installation_id = installation_id
        self._calls = calls

    @property
    def budget(self) -> Budget:
        """What the installation may still spend, as GitHub last said."""
        return self._calls.meter.budget()

    def after(self, ahead: Ahead) -> "InstallationClient":
        """Return the same client, which calls `ahead` before each call, page by page; it may raise `GitHubError`."""
        return InstallationClient(self.installation_id, self._calls.after(ahead))

    def together(self) -> AbstractContextManager[object]:
        """Give every call inside one common deadline: that of a single call."""
        return self._calls.deadline()

    def renew_for(self, permissions: Mapping[str, str]) -> None:
        """Use a token that knows these permissions, as the installation has them now: an older one learns nothing."""
        self._calls.renew_for(permissions)

    def repositories(self) -> Iterator[RepositoryInfo]:
        """Yield the repositories that the installation covers, page by page."""
        for answer in self._calls.get_pages("/installation/repositories"):
            with reading():
                page = [repository_from_rest(entry) for entry in answer.payload["repositories"]]
            yield from page

    def repository(self, github_id: int) -> RepositoryInfo:
        """Return the repository with that id, whatever it is called today."""
        payload = self._calls.get_object(path("repositories", github_id))
        with reading():
            return repository_from_rest(payload)

    def branches(self, owner: str, name: str) -> list[BranchInfo]:
        """Return every branch of a repository."""
        listed = list(self._calls.get_lists(path("repos", owner, name, "branches")))
        with reading():
            return [branch_from_rest(entry) for entry in listed]

    def branch(self, owner: str, name: str, branch: str) -> BranchInfo:
        """Return one branch; a missing one is `branch_not_found`."""
        try:
            payload = self._calls.get_object(path("repos", owner, name, "branches", branch))
        except GitHubError as error:
            if error.kind is ErrorKind.NOT_FOUND:
                error.code = "branch_not_found"
            raise
        with reading():
            return branch_from_rest(payload)

    def branch_tips(self, repository_node_ids: Sequence[str], containing: str = "") -> list[RepositoryTips]:
        """Return the branches of each repository whose names contain a text, in the order asked for.

        One GraphQL call for up to `settings.repositories_per_query` repositories, and one more for each further
        hundred branches of one. What fails for one repository is in its `error`.
        """
        return tips.branch_tips(self._calls, repository_node_ids, containing)

    def open_heads(
        self,
        wanted: Sequence[BranchRef],
        *,
        read_back_app_id: int | None = None,
        check_names: Collection[str] | None = None,
        between: Callable[[], object] = lambda: None,
    ) -> list[BranchHeads]:
        """Return the open pull requests and queue entries of each wanted branch, in the order wanted.

        One GraphQL call for up to `settings.repositories_per_query` branches (the caller makes the batches), and one
        more for each further hundred pull requests of a branch. With `read_back_app_id`, one call for each 50 heads
        besides tells the newest checks of that app, those of `check_names` only if these are given; `between` is called
        before each of them. What fails for one branch is in its `error`; what is raised concerns them all.
        """
        return heads.open_heads(self._calls, wanted, read_back_app_id, check_names, between)

    def write_checks(self, writes: Sequence[CheckWrite]) -> list[CheckResult]:
        """Create check runs with one GraphQL mutation; the results are in the order of the writes.

        Each result has an id or an error of its own. What is raised concerns the whole request, and with
        `maybe_applied` any part of it may have happened.
        """
        return checks.write_checks(self._calls, writes)

    def create_check_rest(self, owner: str, name: str, write: CheckWrite) -> CheckResult:
        """Create one check run by REST; the write's node id is not used."""
        return checks.create_check(self._calls, owner, name, write)

    def check_runs(self, owner: str, name: str, sha: str, check_name: str) -> list[CheckState]:
        """Return all runs of that name on a commit, of any app, the newest first."""
        with reading():
            return checks.check_runs(self._calls, owner, name, sha, check_name)

    def rules(self, wanted: Sequence[BranchRef], *, between: Callable[[], object] = lambda: None) -> list[BranchRules]:
        """Return the active rules of each wanted branch, in the order wanted, and what is seen beside them.

        One GraphQL call for up to `settings.repositories_per_query` branches (the caller makes the batches), and one
        REST call for each branch whose rules that does not tell, such as one that does not exist yet; `between` is
        called before each of these.
        """
        return read_branches(self._calls, wanted, between)

    def ruleset_details(self, node_ids: Sequence[str]) -> dict[str, RulesetDetails]:
        """Return who can bypass each ruleset and what it requires, by node id; one call for each hundred."""
        return read_rulesets(self._calls, node_ids)

    def activity(self, owner: str, name: str, branch: str, since: datetime) -> list[Activity]:
        """Return what happened to a branch at `since` or later, the newest first: one call for each hundred.

        GitHub tells its own times in whole seconds, and may need a moment until it lists what has just happened.
        """
        with reading():
            return list_activity(self._calls, owner, name, branch, since)

    def pulls_of_commit(self, owner: str, name: str, sha: str) -> list[PullOfCommit]:
        """Return the pull requests that brought a commit to its branch, or that are open with it as their head."""
        with reading():
            return list_pulls_of_commit(self._calls, owner, name, sha)

    def branch_rules(self, owner: str, name: str, branch: str) -> list[dict[str, Any]]:
        """Return the active rules of every level for a branch, which need not exist."""
        return list(self._calls.get_lists(path("repos", owner, name, "rules", "branches", branch)))

    def repository_rulesets(self, owner: str, name: str) -> rulesets.Rulesets:
        """Return access to a repository's rulesets."""
        return rulesets.repository_rulesets(self._calls, owner, name)

    def organization_rulesets(self, organization: str) -> rulesets.Rulesets:
        """Return access to an organisation's rulesets."""
        return rulesets.organization_rulesets(self._calls, organization)
