"""The client of one installation: everything that the service reads and writes for it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

from integrations.github import checks, heads, rule_facts, ruleset_batches, rulesets, tips
from integrations.github.activity import Activity, PullOfCommit, list_activity, list_pulls_of_commit
from integrations.github.budget import Budget
from integrations.github.calls import BeforeRequest, Calls, path
from integrations.github.errors import ErrorKind, GitHubError
from integrations.github.responses import parsing
from integrations.github.rules import BranchRules, RulesetDetails, read_rules, read_rulesets
from integrations.github.ruleset_batches import CreatedRuleset, RulesetBody
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
from rules.exceptions.facts import ChangedFiles, Commit, RuleFacts, Unknown


class InstallationClient:
    """GitHub's API with an installation's token. Every method may raise `GitHubError`; thread-safe."""

    def __init__(self, installation_id: int, calls: Calls) -> None:
        self.installation_id = installation_id
        self._calls = calls

    @property
    def budget(self) -> Budget:
        """The installation's rate limits, as of the last responses."""
        return self._calls.limits.budget()

    def forget_pauses(self, older_than: float) -> None:
        """Forget the pauses that began more than so many seconds ago."""
        self._calls.limits.forget_pauses(older_than)

    def with_hook(self, before_request: BeforeRequest) -> "InstallationClient":
        """Return a client that calls `before_request` before each request, including each page."""
        return InstallationClient(self.installation_id, self._calls.with_hook(before_request))

    def shared_deadline(self) -> AbstractContextManager[object]:
        """Set one deadline for all calls in the context, twice as long as that of a single call."""
        return self._calls.shared_deadline()

    def renew_for(self, permissions: Mapping[str, str]) -> None:
        """Use a token with these permissions of the installation; a token does not gain permissions granted later."""
        self._calls.renew_for(permissions)

    def repositories(self) -> Iterator[RepositoryInfo]:
        """Yield the repositories of the installation, page by page."""
        for response in self._calls.get_pages("/installation/repositories"):
            with parsing():
                page = [repository_from_rest(entry) for entry in response.payload["repositories"]]
            yield from page

    def repository(self, github_id: int) -> RepositoryInfo:
        """Return the repository with that id, whatever its present name."""
        payload = self._calls.get_object(path("repositories", github_id))
        with parsing():
            return repository_from_rest(payload)

    def may_write(self, owner: str, name: str, account_id: int, login: str) -> bool:
        """True if an account may push to a repository; False if it has gone, or another one has its login now.

        https://docs.github.com/en/rest/collaborators/collaborators#get-repository-permissions-for-a-user
        """
        found = self._find(path("repos", owner, name, "collaborators", login, "permission"))
        if found is None:
            return False
        user = found.get("user")
        same = isinstance(user, Mapping) and user.get("id") == account_id
        return same and found.get("permission") in {"write", "admin"}

    def account_id(self, login: str) -> int | None:
        """Return the id of the account with a login, a person, a bot or an organisation; None if there is none.

        https://docs.github.com/en/rest/users/users#get-a-user
        """
        return self._id_of(path("users", login))

    def team_id(self, organization: str, slug: str) -> int | None:
        """Return the id of a team; None if there is none that the installation sees. Needs `members: read`.

        https://docs.github.com/en/rest/teams/teams#get-a-team-by-name
        """
        return self._id_of(path("orgs", organization, "teams", slug))

    def _id_of(self, address: str) -> int | None:
        found = self._find(address)
        with parsing():
            return None if found is None else int(found["id"])

    def _find(self, address: str) -> Mapping[str, Any] | None:
        """Return an object; None if GitHub has none there."""
        try:
            return self._calls.get_object(address)
        except GitHubError as error:
            if error.kind is ErrorKind.NOT_FOUND:
                return None
            raise

    def branches(self, owner: str, name: str) -> list[BranchInfo]:
        """Return all branches of a repository."""
        listed = list(self._calls.get_lists(path("repos", owner, name, "branches")))
        with parsing():
            return [branch_from_rest(entry) for entry in listed]

    def branch(self, owner: str, name: str, branch: str) -> BranchInfo:
        """Return one branch. Raise `branch_not_found` if it does not exist."""
        try:
            payload = self._calls.get_object(path("repos", owner, name, "branches", branch))
        except GitHubError as error:
            if error.kind is ErrorKind.NOT_FOUND:
                error.code = "branch_not_found"
            raise
        with parsing():
            return branch_from_rest(payload)

    def branch_tips(self, repository_node_ids: Sequence[str], containing: str = "") -> list[RepositoryTips]:
        """Return the branches of each repository whose names contain a text, in the given order.

        One GraphQL query for all repositories (the caller makes the batches), and one more for each further hundred
        branches of a repository. The failure of one repository is in its `error`.
        """
        return tips.branch_tips(self._calls, repository_node_ids, containing)

    def open_heads(
        self,
        wanted: Sequence[BranchRef],
        *,
        read_back_app_id: int | None = None,
        between: Callable[[], object] = lambda: None,
    ) -> list[BranchHeads]:
        """Return the open pull requests and merge-queue entries of each branch, in the given order.

        One GraphQL query for up to `settings.branches_per_query` branches (the caller makes the batches), and one more
        for each further hundred pull requests of a branch. With `read_back_app_id`, one more query per 50 heads
        reads the newest checks of that app. `between` is called before each query but the first. The failure of one
        branch is in its `error`; an exception concerns all of them.
        """
        return heads.open_heads(self._calls, wanted, read_back_app_id, between)

    def write_checks(self, writes: Sequence[CheckWrite]) -> list[CheckResult]:
        """Create check runs with one GraphQL mutation; the results are in the order of the writes.

        Each result has an id or an error. An exception concerns the whole request; if it has `maybe_applied`, any of
        the checks may have been created.
        """
        return checks.write_checks(self._calls, writes)

    def check_runs(self, owner: str, name: str, sha: str, check_name: str) -> list[CheckState]:
        """Return all runs with that name on a commit, of any app, newest first."""
        with parsing():
            return checks.check_runs(self._calls, owner, name, sha, check_name)

    def rules(self, wanted: Sequence[BranchRef]) -> list[BranchRules]:
        """Return the active rules of each branch, in the given order, with rulesets and classic protection.

        One GraphQL query for up to `settings.branches_per_query` branches (the caller makes the batches), and one
        REST call for each branch whose rules the query does not return, such as one that does not exist yet.
        """
        return read_rules(self._calls, wanted)

    def ruleset_details(self, node_ids: Sequence[str]) -> dict[str, RulesetDetails]:
        """Return bypass actors and required checks of each ruleset by node id; one query per hundred."""
        return read_rulesets(self._calls, node_ids)

    def read_ruleset_bodies(self, node_ids: Sequence[str]) -> list[RulesetBody | GitHubError]:
        """Return each ruleset as it can be written back, in the given order; one query for every 20.

        A ruleset that is gone, or not shown, is an error of kind `NOT_FOUND`. An exception concerns all of them.
        """
        return ruleset_batches.read_ruleset_bodies(self._calls, node_ids)

    def write_rulesets(self, updates: Sequence[tuple[str, Mapping[str, Any]]]) -> list[GitHubError | None]:
        """Replace up to 20 rulesets, node id and whole body, with one mutation; the results are in the given order.

        Each result is None or an error. An exception concerns the whole request; if it has `maybe_applied`, any of the
        rulesets may have been written. Raise ValueError, with nothing sent, for a body that is not complete
        (`RulesetBody`), or for more than 20: the caller makes the batches.
        """
        return ruleset_batches.write_rulesets(self._calls, updates)

    def create_rulesets(self, creations: Sequence[tuple[str, Mapping[str, Any]]]) -> list[CreatedRuleset | GitHubError]:
        """Create up to 20 rulesets, node id of the repository and body, as `write_rulesets` writes them."""
        return ruleset_batches.create_rulesets(self._calls, creations)

    def team_members(self, organization_id: int, team_id: int) -> frozenset[int]:
        """Return the ids of the accounts in a team, and in the teams below it; one call per hundred (members:read)."""
        return rule_facts.team_members(self._calls, organization_id, team_id)

    def rule_facts(self, node_ids: Sequence[str], kinds: rule_facts.FactKinds) -> list[RuleFacts | GitHubError]:
        """Return the facts of pull requests, in the given order, with one query: the caller makes the batches.

        Commits are not read, nor the former names of files, nor more than a hundred files. The failure of one pull
        request takes its place; an exception concerns all of them.
        """
        return rule_facts.rule_facts(self._calls, node_ids, kinds)

    def all_files(self, owner: str, name: str, number: int, head_sha: str, expected: int) -> ChangedFiles | Unknown:
        """Return all files of a pull request whose head this is, with former names; one call per hundred.

        `Unknown` above 3,000, if there are not as many as expected, and if the head is another one by now.
        """
        return rule_facts.all_files(self._calls, owner, name, number, head_sha, expected)

    def commits_of(self, owner: str, name: str, number: int, head_sha: str) -> tuple[Commit, ...] | Unknown:
        """Return the commits of a pull request whose head this is; one call per hundred.

        `Unknown` for 250 and more, of which GitHub lists no more, and if the head is another one by now.
        """
        return rule_facts.commits_of(self._calls, owner, name, number, head_sha)

    def pushers_of(self, owner: str, name: str, branch: str) -> frozenset[int] | Unknown:
        """Return who pushed to a branch, or merged into it, since it was made; one call per hundred pushes.

        `Unknown` for more than 300 pushes. An account that is gone is left out. A recent push may be missing for a
        moment.
        """
        return rule_facts.pushers_of(self._calls, owner, name, branch)

    def activity(self, owner: str, name: str, branch: str, since: datetime) -> list[Activity]:
        """Return the activities of a branch at `since` or later, newest first; one call per hundred.

        GitHub's timestamps are whole seconds, and recent activities may be missing for a moment.
        """
        with parsing():
            return list_activity(self._calls, owner, name, branch, since)

    def pulls_of_commit(self, owner: str, name: str, sha: str) -> list[PullOfCommit]:
        """Return the merged pull requests that contain a commit, and the open ones with it as their head."""
        with parsing():
            return list_pulls_of_commit(self._calls, owner, name, sha)

    def branch_rules(self, owner: str, name: str, branch: str) -> list[dict[str, Any]]:
        """Return the active rules of all levels for a branch, which need not exist."""
        return list(self._calls.get_lists(path("repos", owner, name, "rules", "branches", branch)))

    def repository_rulesets(self, owner: str, name: str) -> rulesets.Rulesets:
        """Return access to a repository's rulesets."""
        return rulesets.repository_rulesets(self._calls, owner, name)

    def organization_rulesets(self, organization: str) -> rulesets.Rulesets:
        """Return access to an organisation's rulesets."""
        return rulesets.organization_rulesets(self._calls, organization)
