"""Commits that land on frozen branches, found by what the code host tells, and told of once."""

import base64
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.event import listen

from integrations.github import BranchHeads
from services.chores import tidy, work_waiting
from services.landings import JOB, LEASE, examine_landings, note_tips
from services.unit import Caller
from tests.jobs.conftest import ADA, Builder, Town
from tests.services.conftest import MovedClock
from tests.support.post import Post, look_everywhere
from tools.codehost.model.checks import create_check_run
from tools.codehost.model.queue import enqueue
from tools.codehost.model.records import PullRequest, Repository
from tools.codehost.model.world import Actor

MAIN = "refs/heads/main"
CHECK = "change-freeze/main"
ACTIVITY = "GET /repos/{owner}/{repo}/activity"
Notice = Callable[[], None]


class Clocks:
    """The clocks of the code host and of the database, moved together."""

    def __init__(self, town: Town) -> None:
        self.town, self.moved = town, MovedClock()
        town.units.clock = town.jobs.clock = self.moved
        town.host.world.clock = lambda: datetime.now(UTC) + self.moved.ahead

    def pass_by(self, **time: float) -> None:
        """Let time pass, by default two seconds: enough to tell before from after."""
        self.moved.ahead += timedelta(**(time or {"seconds": 2}))

    def stand_still(self) -> None:
        """Let everything at the code host happen within one second from now on."""
        instant = self.town.host.world.clock()
        self.town.host.world.clock = lambda: instant


@pytest.fixture
def clocks(town: Town) -> Clocks:
    return Clocks(town)


@pytest.fixture
def post(town: Town) -> Post:
    return Post(town)


@pytest.fixture(params=["by webhook", "by the full pass, with every webhook lost"])
def notice(request: pytest.FixtureRequest, town: Town, post: Post) -> Notice:
    """Become aware of what has happened, and look into it."""

    def look() -> None:
        if request.param == "by webhook":
            post.run()
        else:
            post.take()
            look_everywhere(town)
        examine(town)

    return look


@pytest.fixture
def web(town: Town, build: Builder, clocks: Clocks) -> list[PullRequest]:
    """Two green pull requests into acme/web main, whose rules the maintainer can pass by."""
    pulls = build("web")
    for ruleset in town.host.world.rulesets.values():
        ruleset.bypass_actors = [{"actor_id": town.host.maintainer.id, "actor_type": "User", "bypass_mode": "always"}]
    town.settle()
    clocks.pass_by()
    return pulls


def examine(town: Town) -> None:
    turns = 0
    while examine_landings(town.jobs, town.github):
        turns += 1
        assert turns < 20, "a landing is looked into again and again"


def frozen(town: Town, clocks: Clocks) -> str:
    """Freeze everything, and let every head show it."""
    freeze = town.freeze()
    clocks.pass_by()
    town.settle()
    clocks.pass_by()
    return freeze


def merge(town: Town, pull: PullRequest) -> str:
    answer = town.merge("acme/web", pull.number)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["sha"])


def push(town: Town, name: str = "a.txt") -> str:
    body = {"message": name, "content": base64.b64encode(b"now").decode(), "branch": "main"}
    answer = town.person("PUT", f"/repos/acme/web/contents/{name}", body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["commit"]["sha"])


def report(town: Town, sha: str, conclusion: str) -> None:
    """Have the App write a check, as a worker does that was held up."""
    host = town.host
    actor = Actor(host.world.accounts[host.app.bot_id], host.app_id)
    fields = {"name": CHECK, "head_sha": sha, "conclusion": conclusion}
    create_check_run(host.world, actor, host.app_id, repository(town), fields)


def repository(town: Town) -> Repository:
    return town.host.world.repository_named("acme/web")


def told(town: Town) -> list[tuple[str, str, dict[str, Any]]]:
    """Return what the audit tells of landings: action, who, details."""
    query = "SELECT action, actor ->> 'name', details, actor ->> 'type', source, target FROM audit_entries"
    rows = town.sql(f"{query} WHERE details ? 'commit' ORDER BY at, id")
    assert all((row[3], row[4], row[5]["name"]) == ("code_host", "code_host", "acme/web:main") for row in rows)
    return [(row[0], row[1], row[2]) for row in rows]


def items(town: Town) -> list[tuple[str, str]]:
    query = "SELECT type, severity FROM attention_items WHERE cleared_at IS NULL ORDER BY since, id"
    return [(row[0], row[1]) for row in town.sql(query)]


def looks(town: Town) -> int:
    return int(town.host.calls.by_operation[ACTIVITY])


def test_whoever_merges_past_the_rule_is_named(
    town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    freeze = frozen(town, clocks)
    head = web[0].head_sha
    sha = merge(town, web[0])
    notice()
    [(action, who, details)] = told(town)
    assert (action, who) == ("freeze.bypassed", "maintainer")
    landed_at = datetime.fromisoformat(details.pop("landedAt"))
    assert abs(landed_at - town.host.world.clock()) < timedelta(seconds=30)
    assert details == {
        "commit": sha,
        "how": "pr_merge",
        "who": "maintainer",
        "pullRequest": web[0].number,
        "headSha": head,
        "freezeIds": [freeze],
        "delaySeconds": None,
    }
    assert items(town) == [("freeze_bypassed", "critical")]
    merged = f"maintainer merged #{web[0].number} into acme/web:main while it was frozen (commit {sha[:7]})"
    assert town.sql("SELECT message FROM attention_items") == [(f"{merged}, past the freeze.",)]
    [(action,)] = town.sql("SELECT action FROM attention_items")
    number = web[0].number
    assert action == {"label": f"Open pull request #{number}", "url": f"https://github.com/acme/web/pull/{number}"}


def test_a_direct_push_is_a_bypass(town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice) -> None:
    frozen(town, clocks)
    sha = push(town)
    notice()
    [(action, _who, details)] = told(town)
    assert (action, details["how"], details["commit"], details["pullRequest"]) == ("freeze.bypassed", "push", sha, None)
    assert items(town) == [("freeze_bypassed", "critical")]
    assert town.sql("SELECT action ->> 'url' FROM attention_items") == [(f"https://github.com/acme/web/commit/{sha}",)]


def test_a_forced_push_is_a_bypass(town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice) -> None:
    start = repository(town).branches["main"]
    push(town)
    town.look_at_everything()
    town.settle()
    clocks.pass_by()
    frozen(town, clocks)
    answer = town.person("PATCH", "/repos/acme/web/git/refs/heads/main", {"sha": start, "force": True})
    assert answer.status_code == 200
    notice()
    assert [(action, details["how"]) for action, _who, details in told(town)] == [("freeze.bypassed", "force_push")]


def test_a_branch_made_anew_at_another_commit_is_a_bypass(
    town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    frozen(town, clocks)
    assert town.person("DELETE", "/repos/acme/web/git/refs/heads/main").status_code == 204
    town.look_at_everything()
    town.settle()
    body = {"ref": MAIN, "sha": web[0].head_sha}
    assert town.person("POST", "/repos/acme/web/git/refs", body).status_code == 201
    notice()
    found = [(action, details["how"]) for action, _who, details in told(town)]
    assert found == [("freeze.bypassed", "branch_creation")]


def test_a_merge_before_we_had_written_accuses_nobody_and_tells_our_delay(
    town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    town.freeze()
    clocks.pass_by(seconds=5)
    merge(town, web[0])
    clocks.pass_by()
    notice()
    [(action, _who, details)] = told(town)
    assert action == "freeze.landed_before_block"
    assert details["delaySeconds"] in {4, 5}
    assert items(town) == [("landed_before_block", "info")]


def test_a_merge_after_a_late_writers_success_is_our_gap(
    town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    frozen(town, clocks)
    report(town, web[0].head_sha, "success")
    clocks.pass_by()
    merge(town, web[0])
    notice()
    assert [(action, details["delaySeconds"]) for action, _who, details in told(town)] == [
        ("freeze.enforcement_gap", None)
    ]
    assert items(town) == [("enforcement_gap", "warning")]


def test_a_merge_in_the_second_of_the_failure_accuses_nobody(
    town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    town.freeze()
    clocks.pass_by()
    clocks.stand_still()
    town.settle()
    merge(town, web[0])
    notice()
    assert [action for action, _who, _details in told(town)] == ["freeze.landed_before_block"]


@pytest.mark.parametrize(
    ("verified", "expected"),
    [
        pytest.param("-1 hour", "freeze.bypassed", id="only whoever is let past a rule merges without it"),
        pytest.param("1 hour", "freeze.landed_before_block", id="the rule was seen only later, it may be new"),
        pytest.param(None, "freeze.landed_before_block", id="no rule is known"),
    ],
)
def test_a_merge_without_any_check(
    town: Town, web: list[PullRequest], clocks: Clocks, post: Post, verified: str | None, expected: str
) -> None:
    frozen(town, clocks)
    pull = town.host.organization("acme").repository("web").pull_request()
    merge(town, pull)
    if verified:
        town.sql(
            "INSERT INTO branch_enforcement (branch_id, organization_id, required, verified_at) "
            "SELECT id, organization_id, true, clock_timestamp() + CAST(:verified AS interval) FROM watched_branches",
            verified=verified,
        )
    look_everywhere(town)
    examine(town)
    assert [action for action, _who, _details in told(town)] == [expected]


def test_the_queue_merges_what_a_late_success_let_through(
    town: Town, build: Builder, clocks: Clocks, notice: Notice
) -> None:
    [pull] = build("web", pulls=1)
    town.host.organization("acme").repository("web").merge_queue()
    town.settle()
    clocks.pass_by()
    town.freeze()
    clocks.pass_by()
    entry = enqueue(town.host.world, Actor(town.host.maintainer), repository(town), pull)
    assert entry.head_sha is not None
    report(town, entry.head_sha, "success")
    notice()
    [(action, _who, details)] = told(town)
    assert (action, details["how"]) == ("freeze.enforcement_gap", "merge_queue_merge")
    assert (details["pullRequest"], details["commit"]) == (pull.number, entry.head_sha)


def test_a_freeze_that_was_lifted_meanwhile_was_bypassed_all_the_same(
    town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    freeze = frozen(town, clocks)
    merge(town, web[0])
    clocks.pass_by()
    town.lift(freeze)
    clocks.pass_by()
    notice()
    assert [action for action, _who, _details in told(town)] == ["freeze.bypassed"]
    assert items(town) == [("freeze_bypassed", "critical")]


def test_what_lands_before_and_after_a_freeze_is_nobodys_concern(
    town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    merge(town, web[0])
    clocks.pass_by()
    freeze = frozen(town, clocks)
    town.lift(freeze)
    clocks.pass_by()
    town.settle()
    clocks.pass_by()
    merge(town, web[1])
    notice()
    assert told(town) == []
    assert items(town) == []


def test_each_landing_is_told_of_once_however_often_it_is_seen(
    town: Town, web: list[PullRequest], clocks: Clocks, post: Post
) -> None:
    frozen(town, clocks)
    merge(town, web[0])
    clocks.pass_by()
    push(town)
    deliveries = post.take()
    for _ in range(2):
        post.hand_over(deliveries)
        town.settle()
        examine(town)
        look_everywhere(town)
        town.sql("UPDATE watched_branches SET landings_due_at = tip_seen_at, landings_since = created_at")
        examine(town)
    assert [details["how"] for _action, _who, details in told(town)] == ["pr_merge", "push"]
    assert len(items(town)) == 2


def test_a_push_to_a_branch_that_is_not_frozen_costs_no_call(
    town: Town, web: list[PullRequest], post: Post, notice: Notice
) -> None:
    push(town)
    notice()
    assert looks(town) == 0


def test_a_pass_that_finds_nothing_new_under_a_freeze_costs_no_call(
    town: Town, web: list[PullRequest], clocks: Clocks, notice: Notice
) -> None:
    frozen(town, clocks)
    notice()
    assert looks(town) == 0


def test_a_branch_that_is_seen_for_the_first_time_has_not_moved(
    town: Town, build: Builder, clocks: Clocks, notice: Notice
) -> None:
    build("web")
    frozen(town, clocks)
    notice()
    assert looks(town) == 0


class TestWhenTheCodeHostIsInTheWay:
    def test_what_is_not_listed_yet_is_asked_for_again(
        self, town: Town, web: list[PullRequest], clocks: Clocks
    ) -> None:
        frozen(town, clocks)
        push(town)
        late = repository(town).activities.pop()
        look_everywhere(town)
        examine(town)
        assert told(town) == []
        repository(town).activities.append(late)
        clocks.pass_by(minutes=1)
        examine(town)
        assert [action for action, _who, _details in told(town)] == ["freeze.bypassed"]

    def test_what_is_never_listed_is_given_up(self, town: Town, web: list[PullRequest], clocks: Clocks) -> None:
        frozen(town, clocks)
        push(town)
        repository(town).activities.clear()
        look_everywhere(town)
        for _ in range(12):
            examine(town)
            clocks.pass_by(minutes=6)
        assert work_waiting(town.jobs) & {"landings"} == set()
        assert town.sql("SELECT landings_due_at FROM watched_branches") == [(None,)]
        assert told(town) == []

    def test_an_error_is_tried_again_later(self, town: Town, web: list[PullRequest], clocks: Clocks) -> None:
        frozen(town, clocks)
        push(town)
        look_everywhere(town)
        town.host.faults.add("error", "GET /repos/acme/web/activity", count=1, status=502)
        examine(town)
        assert (told(town), looks(town)) == ([], 1)
        clocks.pass_by(minutes=1)
        assert "landings" in work_waiting(town.jobs)
        examine(town)
        assert len(told(town)) == 1

    def test_a_missing_permission_is_said_and_not_asked_for_in_a_loop(
        self, town: Town, web: list[PullRequest], clocks: Clocks, caplog: pytest.LogCaptureFixture
    ) -> None:
        frozen(town, clocks)
        merge(town, web[0])
        look_everywhere(town)
        refused = "Resource not accessible by integration"
        town.host.faults.add("error", "/pulls", status=403, message=refused)
        examine(town)
        clocks.pass_by(minutes=5)
        examine(town)
        assert (told(town), looks(town)) == ([], 1)
        assert "acme/web:main" in caplog.text
        assert refused in caplog.text

    def test_a_limit_stops_the_whole_turn(self, town: Town, build: Builder, clocks: Clocks) -> None:
        pulls = build("web", "api", pulls=1)
        town.settle()
        frozen(town, clocks)
        for pull in pulls:
            town.host.world.repositories[pull.repository_id].branches["main"] = pull.head_sha
        look_everywhere(town)
        town.host.faults.add("error", "/activity", count=5, status=429)
        examine(town)
        assert looks(town) == 1
        assert "landings" not in work_waiting(town.jobs)

    def test_a_worker_that_died_leaves_a_lease_that_runs_out(
        self, town: Town, web: list[PullRequest], clocks: Clocks
    ) -> None:
        frozen(town, clocks)
        push(town)
        look_everywhere(town)
        town.sql("UPDATE watched_branches SET landings_due_at = landings_due_at + :lease", lease=LEASE)
        assert "landings" not in work_waiting(town.jobs)
        clocks.pass_by(minutes=6)
        assert "landings" in work_waiting(town.jobs)
        examine(town)
        assert len(told(town)) == 1


class TestWhatIsTold:
    def test_an_item_is_shown_for_a_day_and_until_the_freeze_has_ended(
        self, town: Town, web: list[PullRequest], clocks: Clocks
    ) -> None:
        def shown_after(**time: float) -> list[tuple[str, str]]:
            clocks.pass_by(**time)
            tidy(town.jobs)
            return items(town)

        freeze = frozen(town, clocks)
        push(town)
        look_everywhere(town)
        examine(town)
        bypassed = [("freeze_bypassed", "critical")]
        assert shown_after(hours=30) == bypassed, "the freeze is in force"
        town.lift(freeze)
        assert shown_after(hours=2) == []

    def test_a_freeze_that_ends_soon_hides_nothing(self, town: Town, web: list[PullRequest], clocks: Clocks) -> None:
        freeze = frozen(town, clocks)
        push(town)
        look_everywhere(town)
        examine(town)
        town.lift(freeze)
        for hours, open_items in ((2, 1), (25, 0)):
            clocks.pass_by(hours=hours)
            tidy(town.jobs)
            assert len(items(town)) == open_items

    def test_whoever_was_deleted_is_a_ghost(self, town: Town, web: list[PullRequest], clocks: Clocks) -> None:
        frozen(town, clocks)
        push(town)
        repository(town).activities[-1].actor_id = 0
        look_everywhere(town)
        examine(town)
        assert [who for _action, who, _details in told(town)] == ["ghost"]

    def test_a_branch_that_was_taken_in_later_was_free_until_then(
        self, town: Town, web: list[PullRequest], clocks: Clocks
    ) -> None:
        freeze = town.freeze()
        clocks.pass_by()
        merge(town, web[0])
        clocks.pass_by()
        with town.units.open(Caller(town.organization.id, ADA, "dashboard")) as unit:
            branch = town.branches["acme/web"].id
            unit.audit("freeze.grew", ("freeze", freeze, "Because"), branchIds=[branch])
        look_everywhere(town)
        examine(town)
        assert looks(town) == 1
        assert told(town) == []


def test_noting_the_tips_of_many_branches_is_one_statement(town: Town, build: Builder, clocks: Clocks) -> None:
    build(*(f"service-{number}" for number in range(30)), pulls=0)
    town.freeze()
    heads = [
        (branch.id, BranchHeads("R_1", "main", None, sha=f"{number:040x}"))
        for number, branch in enumerate(town.branches.values())
    ]
    statements: list[str] = []
    with town.jobs.open(JOB) as unit:
        note_tips(unit, heads)
        listen(unit.session.connection(), "before_cursor_execute", lambda *event: statements.append(event[2]))
        note_tips(unit, [(branch_id, replace(found, sha="f" * 40)) for branch_id, found in heads])
        note_tips(unit, [(branch_id, replace(found, sha=None)) for branch_id, found in heads])
    assert len(statements) == 1
    assert unit.wakeups == {"landings"}
    due = town.sql(
        "SELECT count(*) FROM watched_branches WHERE landings_due_at IS NOT NULL AND tip_sha = repeat('f', 40)"
    )
    assert due == [(30,)]
