"""What rules of exceptions read of pull requests, teams and accounts: of the simulated GitHub, and of odd answers."""

from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from integrations.github import ErrorKind, FactKinds, GitHub, GitHubError
from rules.exceptions.facts import ChangedFile, ChangedFiles, Commit, RuleFacts, Unknown
from tests.integrations.github.conftest import SimulatedGitHub
from tests.integrations.github.people import People, Written
from tests.integrations.github.scripted_server import Reply, Script
from tools.fake_github.model import pulls
from tools.fake_github.model.branches import move
from tools.fake_github.model.installations import accept_permissions
from tools.fake_github.model.merges import merge
from tools.fake_github.model.records import PullRequest

Fact = TypeVar("Fact")
HOUR = timedelta(hours=1)
ALL = FactKinds(files=True, labels=True, approvals=True)
BOT = "dependabot[bot]"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def facts(simulated: SimulatedGitHub, pull: PullRequest, kinds: FactKinds = ALL) -> RuleFacts:
    (found,) = simulated.client.rule_facts([pull.node_id], kinds)
    assert isinstance(found, RuleFacts)
    return found


def known(fact: Fact | Unknown) -> Fact:
    assert not isinstance(fact, Unknown)
    return fact


@pytest.fixture
def people(simulated: SimulatedGitHub) -> People:
    return People(simulated)


class TestTeams:
    def test_account_is_found_by_its_login(self, simulated: SimulatedGitHub, people: People) -> None:
        bot = people.actor(BOT).account
        assert simulated.client.account_id(BOT) == bot.id
        assert simulated.client.account_id("nobody") is None

    def test_members_of_a_team_are_read_over_all_pages(self, simulated: SimulatedGitHub, people: People) -> None:
        acme = simulated.host.organization("acme")
        team = acme.team_named("captains", *[f"person-{number}" for number in range(130)])
        assert simulated.client.team_id("acme", "captains") == team
        assert len(simulated.client.team_members(acme.account.id, team)) == 130
        acme.team_named("captains", "ada")
        assert simulated.client.team_members(acme.account.id, team) == {people.id("ada")}
        assert simulated.client.team_id("acme", "crew") is None

    def test_team_is_refused_without_the_permission_members(self, simulated: SimulatedGitHub) -> None:
        acme, installation = simulated.host.organization("acme"), simulated.host.world.installations[7]
        team = acme.team_named("captains", "ada")
        others = {name: level for name, level in installation.permissions.items() if name != "members"}
        accept_permissions(simulated.host.world, simulated.maintainer, installation, others)
        for ask in (
            lambda: simulated.client.team_id("acme", "captains"),
            lambda: simulated.client.team_members(acme.account.id, team),
        ):
            with pytest.raises(GitHubError) as caught:
                ask()
            assert caught.value.kind is ErrorKind.PERMISSION


class TestFacts:
    def test_facts_are_those_of_the_pull_request(self, simulated: SimulatedGitHub, people: People) -> None:
        pull = simulated.web.pull_request(author="ada")
        people.add_files(pull, {"docs/a.md": "a\nb\n", "b.py": "c\n"})
        found = facts(simulated, pull)
        assert (found.number, found.head_sha, found.base) == (pull.number, pull.head_sha, "main")
        assert found.author == people.known("ada")
        assert (found.same_repository, found.changed_lines, found.changed_files) == (True, 4, 3)
        assert found.files == ChangedFiles(
            (ChangedFile("b.py"), ChangedFile(f"changes/{pull.number}.txt"), ChangedFile("docs/a.md")), complete=True
        )
        assert (found.labels, found.approvals) == ((), ())
        assert (found.commits, found.pushed_by, found.head_branch) == (None, None, pull.head_ref)
        assert (found.forced_by, found.changed_at) == (frozenset(), None)

    def test_bot_has_the_login_that_people_see(self, simulated: SimulatedGitHub, people: People) -> None:
        assert facts(simulated, simulated.web.pull_request(author=BOT)).author == people.known(BOT)

    def test_author_who_is_gone_is_unknown(self, simulated: SimulatedGitHub) -> None:
        pull = simulated.web.pull_request(author="ada")
        del simulated.host.world.accounts[pull.author_id]
        assert isinstance(facts(simulated, pull).author, Unknown)

    def test_head_of_a_fork_is_not_in_the_repository(self, simulated: SimulatedGitHub) -> None:
        pull = simulated.web.pull_request(fork="mallory")
        found = facts(simulated, pull)
        assert (found.same_repository, found.pushed_by) == (False, frozenset())

    def test_label_has_who_set_it_last(self, simulated: SimulatedGitHub, people: People) -> None:
        pull = simulated.web.pull_request()
        people.label(pull, "hotfix", "mallory")
        people.unlabel(pull, "hotfix", "mallory")
        with people.at(NOON):
            people.label(pull, "hotfix", "ada")
        people.label(pull, "docs", BOT)
        labels = known(facts(simulated, pull).labels)
        assert [(label.name, label.set_by) for label in labels] == [
            ("hotfix", people.known("ada")),
            ("docs", people.known(BOT)),
        ]
        assert labels[0].set_at == NOON

    def test_label_that_was_taken_away_is_no_fact(self, simulated: SimulatedGitHub, people: People) -> None:
        pull = simulated.web.pull_request()
        people.label(pull, "hotfix", "ada")
        people.unlabel(pull, "hotfix", "bob")
        assert facts(simulated, pull).labels == ()

    def test_approval_is_the_last_opinion_of_a_person(self, simulated: SimulatedGitHub, people: People) -> None:
        pull = simulated.web.pull_request()
        reviews = {person: people.review(pull, person) for person in ("ada", "bob", "cyd", "dan")}
        pulls.dismiss(people.world, people.actor("ada"), people.repository, pull, reviews["bob"].id)
        people.review(pull, "cyd", "CHANGES_REQUESTED")
        people.review(pull, "dan", "COMMENTED")
        approved = pull.head_sha
        people.add_files(pull, {"other.txt": "More"})
        people.review(pull, "eve")
        approvals = known(facts(simulated, pull).approvals)
        assert [(approval.by.login, approval.commit) for approval in approvals] == [
            ("ada", approved),
            ("dan", approved),
            ("eve", pull.head_sha),
        ]

    def test_force_pushes_and_new_bases_are_told(self, simulated: SimulatedGitHub, people: People) -> None:
        pull = simulated.web.pull_request()
        with people.at(NOON):
            people.force_push(pull, "mallory")
        forced = facts(simulated, pull)
        assert (forced.forced_by, forced.changed_at) == (frozenset({people.id("mallory")}), NOON)
        with people.at(NOON + HOUR):
            people.retarget(pull, "release/9", "ada")
        moved = facts(simulated, pull)
        assert (moved.base, moved.forced_by, moved.changed_at) == ("release/9", forced.forced_by, NOON + HOUR)

    def test_base_that_was_force_pushed_is_told(self, simulated: SimulatedGitHub, people: People) -> None:
        pull = simulated.web.pull_request(base="release/9")
        apart = simulated.web.pull_request(base="main").head_sha
        with people.at(NOON):
            move(people.world, people.actor("ada"), people.repository, "release/9", apart, "force_push")
        assert facts(simulated, pull).changed_at == NOON

    def test_base_that_github_replaces_is_told(self, simulated: SimulatedGitHub, people: People) -> None:
        below = simulated.web.pull_request(head="below")
        pull = simulated.web.pull_request(base="below", head="above")
        simulated.web.record.delete_branch_on_merge = True
        with people.at(NOON):
            merge(people.world, simulated.maintainer, simulated.web.record, below)
        found = facts(simulated, pull)
        assert (found.base, found.changed_at) == ("main", NOON)

    def test_force_push_is_told_however_many_labels_follow(self, simulated: SimulatedGitHub, people: People) -> None:
        pull = simulated.web.pull_request()
        with people.at(NOON):
            people.force_push(pull, "mallory")
        for _ in range(101):
            people.label(pull, "noise", "mallory")
            people.unlabel(pull, "noise", "mallory")
        found = facts(simulated, pull)
        assert (found.forced_by, found.changed_at) == (frozenset({people.id("mallory")}), NOON)

    def test_results_are_in_order_and_an_error_is_of_its_own(self, simulated: SimulatedGitHub) -> None:
        one, two = simulated.web.pull_request(), simulated.web.pull_request()
        wanted = [two.node_id, "PR_nowhere", simulated.web.record.node_id, one.node_id]
        found = simulated.client.rule_facts(wanted, ALL)
        numbers = [each.number for each in found if isinstance(each, RuleFacts)]
        kinds = [each.kind for each in found if isinstance(each, GitHubError)]
        assert (numbers, kinds) == ([two.number, one.number], [ErrorKind.NOT_FOUND] * 2)
        assert simulated.host.calls.by_operation["graphql query Facts rateLimit nodes"] == 1

    def test_facts_that_no_rule_asks_for_are_unknown(self, simulated: SimulatedGitHub) -> None:
        found = facts(simulated, simulated.web.pull_request(), FactKinds())
        assert found.changed_files == 1
        assert {found.files, found.labels, found.approvals} == {Unknown("no rule reads it")}

    def test_labels_above_a_hundred_are_unknown(self, simulated: SimulatedGitHub, people: People) -> None:
        pull = simulated.web.pull_request()
        for number in range(101):
            people.label(pull, f"label-{number}")
        assert isinstance(facts(simulated, pull).labels, Unknown)

    def test_label_without_a_listed_event_has_nobody(self, simulated: SimulatedGitHub, people: People) -> None:
        pull = simulated.web.pull_request()
        people.label(pull, "hotfix", "ada")
        for _ in range(100):
            people.label(pull, "noise", "mallory")
            people.unlabel(pull, "noise", "mallory")
        (label,) = known(facts(simulated, pull).labels)
        assert (label.name, label.set_by, label.set_at) == ("hotfix", None, None)


class TestFiles:
    def ask(self, simulated: SimulatedGitHub, pull: PullRequest) -> ChangedFiles | Unknown:
        partly = facts(simulated, pull)
        assert not known(partly.files).complete
        return simulated.client.all_files("acme", "web", pull.number, pull.head_sha, partly.changed_files)

    def test_renamed_file_has_both_names(self, simulated: SimulatedGitHub, people: People) -> None:
        pull = simulated.web.pull_request()
        people.add_files(pull, {"src/b.md": None, "docs/b.md": "Kept"}, on="src/b.md")
        assert self.ask(simulated, pull) == ChangedFiles((ChangedFile("docs/b.md", "src/b.md"),), complete=True)

    def test_files_are_read_over_all_pages(self, simulated: SimulatedGitHub, people: People) -> None:
        pull = simulated.web.pull_request()
        people.add_files(pull, {f"{number}.md": str(number) for number in range(205)})
        found = known(self.ask(simulated, pull))
        assert (len(found.listed), found.complete) == (206, True)

    def test_files_above_three_thousand_are_unknown(self, simulated: SimulatedGitHub, people: People) -> None:
        pull = simulated.web.pull_request()
        people.add_files(pull, {f"{number}.md": str(number) for number in range(3000)})
        assert isinstance(facts(simulated, pull).files, Unknown)
        for expected, calls in ((3001, 0), (3000, 30), (2999, 30)):
            before = simulated.host.calls.total
            found = simulated.client.all_files("acme", "web", pull.number, pull.head_sha, expected)
            assert isinstance(found, Unknown) == (expected != 3000)
            assert simulated.host.calls.total == before + calls

    def test_files_of_another_head_are_unknown(self, simulated: SimulatedGitHub, people: People) -> None:
        """Otherwise a harmless head, pushed between two reads, would have its files taken for those of a bad one."""
        pull = simulated.web.pull_request()
        judged = pull.head_sha
        people.force_push(pull, "mallory")
        assert facts(simulated, pull).changed_files == 1
        assert isinstance(simulated.client.all_files("acme", "web", pull.number, judged, 1), Unknown)


class TestCommits:
    def ask(self, simulated: SimulatedGitHub, people: People, *written: Written) -> tuple[Commit, ...] | Unknown:
        pull = simulated.web.pull_request()
        people.write(pull, *written)
        return simulated.client.commits_of("acme", "web", pull.number, pull.head_sha)

    def test_commits_have_the_accounts_that_github_resolved(self, simulated: SimulatedGitHub, people: People) -> None:
        found = self.ask(
            simulated,
            people,
            ("ada", None, False),
            ("ada", None, True),
            ("ada", "bob", True),
            (BOT, "web-flow", True),
            ("ada", "web-flow", False),
            ("", None, False),
        )
        ada, bob, bot, github = (people.id(login) for login in ("ada", "bob", BOT, "web-flow"))
        assert [(each.author_id, each.committer_id, each.signed_by, each.by_github) for each in known(found)] == [
            (ada, ada, None, False),
            (ada, ada, ada, False),
            (ada, bob, bob, False),
            (bot, github, bot, True),
            (ada, github, None, False),
            (None, None, None, False),
        ]

    @pytest.mark.parametrize(("count", "listed"), [(249, True), (251, False)])
    def test_commits_are_known_while_github_lists_all(
        self, simulated: SimulatedGitHub, people: People, count: int, listed: bool
    ) -> None:
        found = self.ask(simulated, people, *[("ada", None, False)] * count)
        assert isinstance(found, Unknown) != listed

    def test_commits_of_another_head_are_unknown(self, simulated: SimulatedGitHub, people: People) -> None:
        pull = simulated.web.pull_request()
        judged = pull.head_sha
        people.force_push(pull, "mallory")
        assert isinstance(simulated.client.commits_of("acme", "web", pull.number, judged), Unknown)


SHA = "a" * 40
ADA = {"__typename": "User", "login": "ada", "databaseId": 5}
WHOLE = {"pageInfo": {"hasNextPage": False}}
NODE: dict[str, Any] = {
    "number": 1,
    "headRefOid": SHA,
    "headRefName": "topic",
    "updatedAt": "2026-11-21T12:00:00Z",
    "baseRefName": "main",
    "isCrossRepository": False,
    "additions": 1,
    "deletions": 0,
    "changedFiles": 1,
    "author": ADA,
    "changes": {"nodes": []},
    "files": {**WHOLE, "nodes": [{"path": "a.md", "changeType": "MODIFIED"}]},
    "labels": {**WHOLE, "nodes": []},
    "labeled": {"nodes": []},
    "latestOpinionatedReviews": {**WHOLE, "nodes": []},
}


class TestOddAnswers:
    def ask(self, github: GitHub, script: Script, **other: Any) -> RuleFacts | GitHubError:
        script.then("POST /graphql", Reply({"data": {"nodes": [NODE | other]}}))
        (found,) = github.client(7).rule_facts(["PR_1"], ALL)
        return found

    @pytest.mark.parametrize(
        "broken",
        [
            {"author": "ada"},
            {"changedFiles": None},
            {"changes": None},
            {"labels": {**WHOLE, "nodes": [{"name": "hotfix"}]}},
            {"files": {"nodes": [{"path": "a.md", "changeType": "MODIFIED"}]}},
            {"changes": {"nodes": [{"__typename": "BaseRefChangedEvent", "createdAt": "2026-11-21T12:00:00"}]}},
            {"latestOpinionatedReviews": {**WHOLE, "nodes": [{"state": "APPROVED", "commit": {}, "author": ADA}]}},
        ],
    )
    def test_unreadable_facts_are_an_error_of_their_own(
        self, github: GitHub, script: Script, broken: dict[str, Any]
    ) -> None:
        found = self.ask(github, script, **broken)
        assert isinstance(found, GitHubError)
        assert found.kind is ErrorKind.UNAVAILABLE

    def test_actor_without_an_id_is_nobody(self, github: GitHub, script: Script) -> None:
        found = self.ask(github, script, author={"__typename": "EnterpriseUserAccount", "login": "ada"})
        assert isinstance(found, RuleFacts)
        assert isinstance(found.author, Unknown)

    @pytest.mark.parametrize(
        "files",
        [
            {**WHOLE, "nodes": []},
            {"pageInfo": {"hasNextPage": True}, "nodes": [{"path": "a.md", "changeType": "MODIFIED"}]},
            {**WHOLE, "nodes": [{"path": "a.md", "changeType": "COPIED"}]},
            {**WHOLE, "nodes": [{"path": "a.md", "changeType": "SOMETHING_NEW"}]},
        ],
    )
    def test_files_are_incomplete_unless_all_are_named(self, github: GitHub, script: Script, files: Any) -> None:
        found = self.ask(github, script, files=files)
        assert isinstance(found, RuleFacts)
        assert not known(found.files).complete

    @pytest.mark.parametrize("name", ["files", "labels", "latestOpinionatedReviews"])
    def test_list_that_github_does_not_give_is_unknown(self, github: GitHub, script: Script, name: str) -> None:
        found = self.ask(github, script, **{name: None})
        assert isinstance(found, RuleFacts)
        assert sum(isinstance(fact, Unknown) for fact in (found.files, found.labels, found.approvals)) == 1

    def test_denied_part_is_an_error_of_its_pull_request_alone(self, github: GitHub, script: Script) -> None:
        denied = {"type": "FORBIDDEN", "path": ["nodes", 0, "labels"], "message": "Resource not accessible"}
        body = {"data": {"nodes": [NODE | {"labels": None}, NODE | {"number": 2}]}, "errors": [denied]}
        script.then("POST /graphql", Reply(body))
        first, second = github.client(7).rule_facts(["PR_1", "PR_2"], ALL)
        assert isinstance(first, GitHubError)
        assert first.kind is ErrorKind.PERMISSION
        assert isinstance(second, RuleFacts)

    @pytest.mark.parametrize("nodes", [None, [NODE]])
    def test_missing_nodes_are_an_error_of_all(self, github: GitHub, script: Script, nodes: Any) -> None:
        script.then("POST /graphql", Reply({"data": {"nodes": nodes, "rateLimit": {}}}))
        with pytest.raises(GitHubError):
            github.client(7).rule_facts(["PR_1", "PR_2"], ALL)

    def test_renamed_file_without_its_former_name_is_an_error(self, github: GitHub, script: Script) -> None:
        address = f"https://api.github.test/repos/acme/web/contents/a.md?ref={SHA}"
        entry = {"filename": "a.md", "status": "renamed", "contents_url": address}
        script.then("GET /repos/acme/web/pulls/1/files", Reply([entry]))
        with pytest.raises(GitHubError) as caught:
            github.client(7).all_files("acme", "web", 1, SHA, 1)
        assert caught.value.transient

    def test_commit_without_accounts_may_have_empty_ones(self, github: GitHub, script: Script) -> None:
        unsigned = {"verification": {"verified": False}}
        script.then(
            "GET /repos/acme/web/pulls/1/commits",
            Reply([{"sha": SHA, "author": {}, "committer": None, "commit": unsigned}]),
        )
        assert github.client(7).commits_of("acme", "web", 1, SHA) == (Commit(SHA, None, None, None),)

    def test_unreadable_commit_is_a_transient_error(self, github: GitHub, script: Script) -> None:
        script.then("GET /repos/acme/web/pulls/1/commits", Reply([{"sha": SHA, "author": None, "committer": None}]))
        with pytest.raises(GitHubError) as caught:
            github.client(7).commits_of("acme", "web", 1, SHA)
        assert caught.value.transient
