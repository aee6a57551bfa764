"""The rate limiter: every call is recorded, pauses apply to every job, and verdicts have their share."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

import services
from integrations.github import CALL_DEADLINE_SECONDS, GitHub
from rules.errors import ServiceError
from rules.rate_budget import MUTATION_POINTS, QUERY_POINTS, GitHubLimits
from services.bypass_detection.detection import detect_bypasses
from services.core.queue_observer import QueueObserver
from services.core.unit_of_work import SYSTEM_CALLER, Caller
from services.enforcement.probes import probe_due
from services.enforcement.ruleset_removal import withdraw
from services.enforcement.setup_runs import apply_due
from services.github_access.failures import ThrottledError
from services.github_access.pauses import pause_installation
from services.github_access.rate_limiter import background_client
from services.installations.sync_requests import request_comparison
from services.repositories.remote_branches import list_remote_branches
from services.repository_sync.sync import refresh_repository, sync_due
from tests.factories.plans import BUSINESS
from tests.harness.github_harness import ADA, Builder, Harness
from tests.harness.probing import schedule_all_probes
from tests.jobs.bypass_detection.pushes import Clocks, merge
from tests.jobs.setup.requests import add, ask, permit, state

LONG = timedelta(minutes=3)
WRITES = ("POST", "PUT", "PATCH", "DELETE", "graphql mutation")


@dataclass(frozen=True, slots=True)
class Work:
    """Something to be done that takes several calls: one turn of it, and what is there when it is done."""

    turn: Callable[[], object]
    done: Callable[[], bool]


def calls(harness: Harness) -> Counter[str]:
    """Return the calls that were made for the installation: operation → how many."""
    mine = f"installation {harness.installed.id}: "
    by_caller = harness.fake_github.calls.by_caller
    return Counter({call.removeprefix(mine): count for call, count in by_caller.items() if call.startswith(mine)})


def points(made: Counter[str]) -> int:
    """Return what GitHub charges for calls."""
    return sum(
        count * (MUTATION_POINTS if operation.startswith(WRITES) else QUERY_POINTS) for operation, count in made.items()
    )


def spent(harness: Harness) -> int:
    [[total]] = harness.sql("SELECT coalesce(sum(points), 0) FROM github_api_usage")
    return int(total)


def begin(harness: Harness) -> None:
    """Count from now on."""
    harness.fake_github.calls.reset()
    harness.sql("DELETE FROM github_api_usage")


def finish(work: Work) -> None:
    for _ in range(20):
        if not work.turn():
            return
    raise AssertionError("it does not come to rest")


def count(harness: Harness, query: str) -> int:
    [[found]] = harness.sql(f"SELECT count(*) FROM {query}")
    return int(found)


def passing(harness: Harness, build: Builder) -> Work:
    build("web", "api")
    harness.run_until_idle()
    harness.freeze()
    return Work(harness.reconciler.run_pass, lambda: set(harness.conclusions().values()) == {"failure"})


def probing(harness: Harness, build: Builder) -> Work:
    build("web", "api")
    harness.github.settings = replace(harness.github.settings, branches_per_query=1)
    with harness.jobs.open(SYSTEM_CALLER) as uow:
        schedule_all_probes(uow)
    looked = "branch_enforcement WHERE decisive_check IS NOT NULL"
    return Work(partial(probe_due, harness.jobs, harness.github), lambda: count(harness, looked) == 2)


def detecting_bypasses(harness: Harness, build: Builder) -> Work:
    clocks = Clocks(harness)
    [pull] = build("web", pulls=1)
    for ruleset in harness.fake_github.world.rulesets.values():
        ruleset.bypass_actors = [
            {"actor_id": harness.fake_github.maintainer.id, "actor_type": "User", "bypass_mode": "always"}
        ]
    for happens in (
        harness.run_until_idle,
        harness.freeze,
        harness.run_until_idle,
        partial(merge, harness, pull),
        harness.full_resync,
    ):
        happens()
        clocks.pass_by()
    harness.run_until_idle()
    shown = "audit_entries WHERE action = 'freeze.bypassed'"
    return Work(partial(detect_bypasses, harness.jobs, harness.github), lambda: count(harness, shown) == 1)


def comparing_repositories(harness: Harness, build: Builder) -> Work:
    build("web", "api")
    harness.sql("UPDATE repositories SET auto_watch = '{release/*}'")
    with harness.jobs.open(SYSTEM_CALLER) as uow:
        request_comparison(uow, [harness.installed.id])
    compared = "repository_syncs WHERE due_at IS NULL"
    return Work(partial(sync_due, harness.jobs, harness.github), lambda: count(harness, compared) == 1)


def setting_up(harness: Harness, _build: Builder) -> Work:
    repositories(harness, 3)
    return Work(partial(apply_due, harness.jobs, harness.github), lambda: state(harness) == ("done", 3, None))


def withdrawing(harness: Harness, build: Builder) -> Work:
    finish(setting_up(harness, build))
    leaving = Caller(harness.organization.id, ADA, "dashboard", BUSINESS)
    return Work(
        lambda: withdraw(harness.jobs, harness.github, leaving) and None,
        lambda: count(harness, "written_rulesets") == 0,
    )


def repositories(harness: Harness, how_many: int) -> None:
    """Request a ruleset of its own in each of some repositories."""
    add(harness, *(f"service-{number:02}" for number in range(how_many)))
    permit(harness, administration="write")
    ask(harness)
    harness.run_until_idle()
    harness.sql("UPDATE enforcement_setups SET due_at = clock_timestamp() - interval '1 s'")


BUSY = pytest.mark.parametrize(
    "busy", [passing, probing, detecting_bypasses, comparing_repositories, setting_up, withdrawing]
)


@BUSY
def test_every_call_of_a_job_is_recorded(
    harness: Harness, build: Builder, busy: Callable[[Harness, Builder], Work]
) -> None:
    work = busy(harness, build)
    begin(harness)
    finish(work)
    assert work.done()
    assert calls(harness).total() > 1
    assert spent(harness) == points(calls(harness))


@BUSY
def test_no_job_calls_github_while_the_installation_is_paused(
    harness: Harness, build: Builder, busy: Callable[[Harness, Builder], Work], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker has to wait while the first call is being answered."""
    work = busy(harness, build)
    begin(harness)
    identified = harness.fake_github.calls.identified

    def pause(caller: str, operation: str) -> None:
        identified(caller, operation)
        if caller.startswith("installation "):
            with harness.jobs.open(SYSTEM_CALLER) as uow:
                pause_installation(uow, harness.installed.id, uow.now + LONG)

    monkeypatch.setattr(harness.fake_github.calls, "identified", pause)
    finish(work)
    assert calls(harness).total() == 1
    assert not work.done()
    monkeypatch.undo()
    harness.pass_time(LONG * 2)
    finish(work)
    assert work.done()


class LostLeases(QueueObserver):
    """Counts the rows whose lease had ended when it was to be renewed or released."""

    def __init__(self) -> None:
        self.count = 0

    def lost(self, kind: str, count: int) -> None:
        self.count += count


@BUSY
def test_every_call_of_a_job_is_made_under_a_renewed_lease(
    harness: Harness, build: Builder, busy: Callable[[Harness, Builder], Work], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call takes as long as it may, so that all of them together take longer than a lease."""
    work = busy(harness, build)
    begin(harness)
    observer = LostLeases()
    harness.jobs.ports = harness.jobs.ports.having(observer)
    identified = harness.fake_github.calls.identified

    def delay(caller: str, operation: str) -> None:
        identified(caller, operation)
        if caller.startswith("installation "):  # creating its token belongs to the call that needs it
            harness.pass_time(seconds=CALL_DEADLINE_SECONDS)

    monkeypatch.setattr(harness.fake_github.calls, "identified", delay)
    finish(work)
    assert work.done()
    assert observer.count == 0


def slow(harness: Harness, points_per_minute: int) -> None:
    """Have GitHub take fewer points in a minute than it does."""
    limits = GitHubLimits(points_per_minute=points_per_minute)
    harness.jobs.ports = harness.jobs.ports.having(limits)


def test_setup_at_full_speed_leaves_budget_for_verdicts(harness: Harness) -> None:
    repositories(harness, 12)
    begin(harness)
    slow(harness, 100)
    assert apply_due(harness.jobs, harness.github)
    assert 35 <= spent(harness) <= 40
    assert not apply_due(harness.jobs, harness.github)
    harness.freeze()
    harness.run_until_idle()
    assert set(harness.conclusions().values()) == {"failure"}


def test_throttled_worker_retries_after_a_minute_without_pausing_others(harness: Harness) -> None:
    repositories(harness, 12)
    begin(harness)
    slow(harness, 100)
    apply_due(harness.jobs, harness.github)
    assert harness.sql("SELECT paused_until FROM installations") == [(None,)]
    [[waits]] = harness.sql("SELECT due_at - clock_timestamp() > '4 seconds' FROM enforcement_setups")
    assert waits is True
    assert state(harness)[0] == "queued"
    for _minute in range(5):
        harness.sql("UPDATE github_api_usage SET at = at - interval '63 seconds'")
        harness.sql(
            "UPDATE enforcement_setups SET due_at = clock_timestamp() - interval '1 s' WHERE due_at IS NOT NULL"
        )
        apply_due(harness.jobs, harness.github)
    assert state(harness) == ("done", 12, None)


def test_setup_that_was_refused_once_slows_down_and_is_not_refused_again(harness: Harness) -> None:
    """GitHub takes 80 requests a minute that create content, and says not which do."""
    repositories(harness, 40)
    begin(harness)
    harness.fake_github.limits.reset()
    harness.fake_github.settings.content_limits, harness.fake_github.settings.content_per_minute = True, 15
    harness.jobs.ports = harness.jobs.ports.having(GitHubLimits(content_per_minute=15))
    for _minute in range(10):
        harness.sql("UPDATE github_api_usage SET at = at - interval '63 seconds'")
        harness.sql("UPDATE installations SET paused_until = NULL")
        harness.sql(
            "UPDATE enforcement_setups SET due_at = clock_timestamp() - interval '1 s' WHERE due_at IS NOT NULL"
        )
        harness.fake_github.limits.reset()
        while apply_due(harness.jobs, GitHub(harness.github.settings)):
            pass
        if state(harness)[0] == "done":
            break
    assert state(harness) == ("done", 40, None)
    assert harness.fake_github.calls.by_status[403] == 1


def test_probes_run_although_a_setup_has_used_up_its_share(harness: Harness) -> None:
    repositories(harness, 12)
    begin(harness)
    slow(harness, 100)
    apply_due(harness.jobs, harness.github)
    with harness.jobs.open(SYSTEM_CALLER) as uow:
        schedule_all_probes(uow)
    assert probe_due(harness.jobs, harness.github)
    assert count(harness, "branch_enforcement WHERE verified_at IS NOT NULL") == 12


def test_waiting_for_budget_counts_no_attempt_of_bypass_detection(harness: Harness, build: Builder) -> None:
    work = detecting_bypasses(harness, build)
    slow(harness, 10)
    work.turn()
    assert harness.sql("SELECT attempts, due_at IS NULL FROM branch_tips") == [(0, False)]


def test_no_service_calls_github_past_the_rate_limiter() -> None:
    """A pass reserves its calls itself, and a confirmation has looked before it began."""
    sources = Path(services.__file__).parent.rglob("*.py")
    ways = {source.name for source in sources if re.search(r"\bgithub(\(uow\))?\.client\(", source.read_text())}
    assert ways == {"rate_limiter.py", "reconciler.py", "client.py", "confirmation.py"}


def branches(harness: Harness) -> object:
    with harness.unit() as uow:
        return list_remote_branches(uow, "acme/web", None, 10)


class TestRequests:
    @pytest.fixture
    def quiet(self, harness: Harness) -> None:
        add(harness, "web")
        with harness.jobs.open(SYSTEM_CALLER) as uow:
            pause_installation(uow, harness.installed.id, uow.now + LONG)
        begin(harness)

    @pytest.mark.usefixtures("quiet")
    @pytest.mark.parametrize(
        "asking",
        [
            pytest.param(lambda harness: ask(harness, "plan"), id="a plan of rulesets"),
            pytest.param(ask, id="a setup"),
            pytest.param(branches, id="a list of branches"),
        ],
    )
    def test_request_is_refused_while_the_installation_is_paused(
        self, harness: Harness, asking: Callable[[Harness], object]
    ) -> None:
        with pytest.raises(ServiceError) as refused:
            asking(harness)
        assert refused.value.code == "github_rate_limited"
        assert 150 < (refused.value.retry_after or 0) <= 180
        assert calls(harness).total() == 0

    @pytest.mark.usefixtures("quiet")
    def test_webhook_of_a_repository_becomes_a_comparison_while_paused(self, harness: Harness) -> None:
        repository = harness.record()
        harness.sql("UPDATE repositories SET name = 'former'")
        refresh_repository(harness.jobs, harness.github, repository.id)
        assert not sync_due(harness.jobs, harness.github)
        assert calls(harness).total() == 0
        harness.sql("UPDATE installations SET paused_until = NULL")
        assert sync_due(harness.jobs, harness.github)
        assert harness.sql("SELECT name FROM repositories") == [("web",)]


def test_background_calls_leave_a_fifth_of_the_hourly_quota_to_verdicts(harness: Harness, build: Builder) -> None:
    build("web", pulls=1)
    harness.run_until_idle()
    client = harness.github.client(harness.installed.id)
    node_ids = [record.node_id for record in harness.fake_github.world.repositories.values()]
    while (used := (client.budget.graphql.limit or 0) - (client.budget.graphql.remaining or 0)) < 40:
        client.branch_tips(node_ids)
    harness.fake_github.settings.graphql_points_per_hour = int(used * 1.25)
    background = background_client(harness.jobs, harness.github, harness.installed.id)
    background.branch_tips(node_ids)
    with pytest.raises(ThrottledError, match="kept for verdicts"):
        background.branch_tips(node_ids)
    harness.freeze()
    harness.run_until_idle()
    assert set(harness.conclusions().values()) == {"failure"}
