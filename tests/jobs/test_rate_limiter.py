"""The rate limiter: every call is recorded, pauses apply to every job, and verdicts have their share."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import cast

import pytest

import services
from integrations.github import GitHub
from rules.errors import ServiceError
from rules.rate_budget import MUTATION_POINTS, QUERY_POINTS, RateLimits
from services.bypass_detection.detection import detect_bypasses
from services.core.unit_of_work import SYSTEM_CALLER, Caller
from services.enforcement.applying import apply_due
from services.enforcement.probing import probe_due
from services.enforcement.withdrawing import withdraw
from services.enforcement_status.probe_requests import schedule_all_probes
from services.github_access.pauses import pause_installation
from services.installations.sync_requests import request_comparison
from services.repositories.remote_branches import list_remote_branches
from services.repository_sync.sync import refresh_repository, sync_due
from tests.jobs.bypass_detection.pushes import Clocks, merge
from tests.jobs.conftest import ADA, Builder, Town
from tests.jobs.setup.requests import add, ask, permit, state
from tests.services.conftest import MovedClock

LONG = timedelta(minutes=3)
WRITES = ("POST", "PUT", "PATCH", "DELETE", "graphql mutation")


@dataclass(frozen=True, slots=True)
class Work:
    """Something to be done that takes several calls: one turn of it, and what is there when it is done."""

    turn: Callable[[], object]
    done: Callable[[], bool]


def installation_of(town: Town) -> int:
    return next(iter(town.host.world.installations))


def calls(town: Town) -> Counter[str]:
    """Return the calls that were made for the installation: operation → how many."""
    mine = f"installation {installation_of(town)}: "
    by_caller = town.host.calls.by_caller
    return Counter({call.removeprefix(mine): count for call, count in by_caller.items() if call.startswith(mine)})


def points(made: Counter[str]) -> int:
    """Return what GitHub charges for calls."""
    return sum(
        count * (MUTATION_POINTS if operation.startswith(WRITES) else QUERY_POINTS) for operation, count in made.items()
    )


def spent(town: Town) -> int:
    [[total]] = town.sql("SELECT coalesce(sum(points), 0) FROM github_api_usage")
    return int(total)


def begin(town: Town) -> None:
    """Count from now on."""
    town.host.calls.reset()
    town.sql("DELETE FROM github_api_usage")


def finish(work: Work) -> None:
    for _ in range(20):
        if not work.turn():
            return
    raise AssertionError("it does not come to rest")


def count(town: Town, query: str) -> int:
    [[found]] = town.sql(f"SELECT count(*) FROM {query}")
    return int(found)


def passing(town: Town, build: Builder) -> Work:
    build("web", "api")
    town.settle()
    town.freeze()
    return Work(town.reconciler.run_pass, lambda: set(town.conclusions().values()) == {"failure"})


def probing(town: Town, build: Builder) -> Work:
    build("web", "api")
    town.github.settings = replace(town.github.settings, repositories_per_query=1)
    with town.jobs.open(SYSTEM_CALLER) as uow:
        schedule_all_probes(uow)
    looked = "branch_enforcement WHERE light = 'green'"
    return Work(partial(probe_due, town.jobs, town.github), lambda: count(town, looked) == 2)


def looking_into_landings(town: Town, build: Builder) -> Work:
    clocks = Clocks(town)
    [pull] = build("web", pulls=1)
    for ruleset in town.host.world.rulesets.values():
        ruleset.bypass_actors = [{"actor_id": town.host.maintainer.id, "actor_type": "User", "bypass_mode": "always"}]
    for happens in (town.settle, town.freeze, town.settle, partial(merge, town, pull), town.look_at_everything):
        happens()
        clocks.pass_by()
    town.settle()
    told = "audit_entries WHERE action = 'freeze.bypassed'"
    return Work(partial(detect_bypasses, town.jobs, town.github), lambda: count(town, told) == 1)


def comparing_repositories(town: Town, build: Builder) -> Work:
    build("web", "api")
    town.sql("UPDATE repositories SET auto_watch = '{release/*}'")
    with town.jobs.open(SYSTEM_CALLER) as uow:
        request_comparison(uow, [installation_of(town)])
    compared = "repository_syncs WHERE due_at IS NULL"
    return Work(partial(sync_due, town.jobs, town.github), lambda: count(town, compared) == 1)


def setting_up(town: Town, _build: Builder) -> Work:
    repositories(town, 3)
    return Work(partial(apply_due, town.jobs, town.github), lambda: state(town) == ("done", 3, None))


def withdrawing(town: Town, build: Builder) -> Work:
    finish(setting_up(town, build))
    leaving = Caller(town.organization.id, ADA, "dashboard", "business")
    return Work(
        lambda: withdraw(town.jobs, town.github, leaving) and None, lambda: count(town, "written_rulesets") == 0
    )


def repositories(town: Town, how_many: int) -> None:
    """Ask for a ruleset of its own in each of some repositories."""
    add(town, *(f"service-{number:02}" for number in range(how_many)))
    permit(town, administration="write")
    ask(town)
    town.settle()
    town.sql("UPDATE enforcement_setups SET due_at = clock_timestamp() - interval '1 s'")


BUSY = pytest.mark.parametrize(
    "busy", [passing, probing, looking_into_landings, comparing_repositories, setting_up, withdrawing]
)


@BUSY
def test_every_call_of_a_job_is_recorded(town: Town, build: Builder, busy: Callable[[Town, Builder], Work]) -> None:
    work = busy(town, build)
    begin(town)
    finish(work)
    assert work.done()
    assert calls(town).total() > 1
    assert spent(town) == points(calls(town))


@BUSY
def test_no_job_calls_github_while_the_installation_is_paused(
    town: Town, build: Builder, busy: Callable[[Town, Builder], Work], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker is told to wait while the first call is being answered."""
    work = busy(town, build)
    begin(town)
    identified = town.host.calls.identified

    def pause(caller: str, operation: str) -> None:
        identified(caller, operation)
        if caller.startswith("installation "):
            with town.jobs.open(SYSTEM_CALLER) as uow:
                pause_installation(uow, installation_of(town), uow.now + LONG)

    monkeypatch.setattr(town.host.calls, "identified", pause)
    finish(work)
    assert calls(town).total() == 1
    assert not work.done()
    monkeypatch.undo()
    cast(MovedClock, town.jobs.clock).ahead += LONG * 2
    finish(work)
    assert work.done()


def slow(town: Town, points_per_minute: int) -> None:
    """Have the code host take fewer points in a minute than it does."""
    rate_limits = RateLimits(points_per_minute=points_per_minute)
    town.jobs.dependencies = replace(town.jobs.dependencies, rate_limits=rate_limits)


def test_setup_at_full_speed_leaves_budget_for_verdicts(town: Town) -> None:
    repositories(town, 12)
    begin(town)
    slow(town, 100)
    assert apply_due(town.jobs, town.github)
    assert 35 <= spent(town) <= 40
    assert not apply_due(town.jobs, town.github)
    town.freeze()
    town.settle()
    assert set(town.conclusions().values()) == {"failure"}


def test_throttled_worker_retries_after_a_minute_without_pausing_others(town: Town) -> None:
    repositories(town, 12)
    begin(town)
    slow(town, 100)
    apply_due(town.jobs, town.github)
    assert town.sql("SELECT paused_until FROM installations") == [(None,)]
    [[waits]] = town.sql("SELECT due_at - clock_timestamp() > '4 seconds' FROM enforcement_setups")
    assert waits is True
    assert state(town)[0] == "queued"
    for _minute in range(5):
        town.sql("UPDATE github_api_usage SET at = at - interval '63 seconds'")
        town.sql("UPDATE enforcement_setups SET due_at = clock_timestamp() - interval '1 s' WHERE due_at IS NOT NULL")
        apply_due(town.jobs, town.github)
    assert state(town) == ("done", 12, None)


def test_setup_that_was_refused_once_slows_down_and_is_not_refused_again(town: Town) -> None:
    """GitHub takes 80 requests a minute that create content, and says not which do."""
    repositories(town, 40)
    begin(town)
    town.host.limits.reset()
    town.host.settings.content_limits, town.host.settings.content_per_minute = True, 15
    town.jobs.dependencies = replace(town.jobs.dependencies, rate_limits=RateLimits(content_per_minute=15))
    for _minute in range(10):
        town.sql("UPDATE github_api_usage SET at = at - interval '63 seconds'")
        town.sql("UPDATE installations SET paused_until = NULL")
        town.sql("UPDATE enforcement_setups SET due_at = clock_timestamp() - interval '1 s' WHERE due_at IS NOT NULL")
        town.host.limits.reset()
        while apply_due(town.jobs, GitHub(town.github.settings)):
            pass
        if state(town)[0] == "done":
            break
    assert state(town) == ("done", 40, None)
    assert town.host.calls.by_status[403] == 1


def test_probes_run_although_a_setup_has_used_up_its_share(town: Town) -> None:
    repositories(town, 12)
    begin(town)
    slow(town, 100)
    apply_due(town.jobs, town.github)
    with town.jobs.open(SYSTEM_CALLER) as uow:
        schedule_all_probes(uow)
    assert probe_due(town.jobs, town.github)
    assert count(town, "branch_enforcement WHERE verified_at IS NOT NULL") == 12


def test_waiting_for_budget_counts_no_attempt_of_bypass_detection(town: Town, build: Builder) -> None:
    work = looking_into_landings(town, build)
    slow(town, 10)
    work.turn()
    assert town.sql("SELECT attempts, due_at IS NULL FROM branch_tips") == [(0, False)]


def test_no_service_calls_github_past_the_rate_limiter() -> None:
    """A pass reserves its calls itself, and a confirmation has looked before it began."""
    sources = Path(services.__file__).parent.rglob("*.py")
    ways = {source.name for source in sources if re.search(r"\bgithub(\(uow\))?\.client\(", source.read_text())}
    assert ways == {"rate_limiter.py", "reconciler.py", "client.py", "confirming.py"}


def branches(town: Town) -> object:
    with town.uow_factory.open(Caller(town.organization.id, ADA, "dashboard", "business")) as uow:
        return list_remote_branches(uow, "acme/web", None, 10)


class TestRequests:
    @pytest.fixture
    def quiet(self, town: Town) -> None:
        add(town, "web")
        with town.jobs.open(SYSTEM_CALLER) as uow:
            pause_installation(uow, installation_of(town), uow.now + LONG)
        begin(town)

    @pytest.mark.usefixtures("quiet")
    @pytest.mark.parametrize(
        "asking",
        [
            pytest.param(lambda town: ask(town, "plan"), id="a plan of rulesets"),
            pytest.param(ask, id="a setup"),
            pytest.param(branches, id="a list of branches"),
        ],
    )
    def test_request_is_refused_while_the_installation_is_paused(
        self, town: Town, asking: Callable[[Town], object]
    ) -> None:
        with pytest.raises(ServiceError) as refused:
            asking(town)
        assert refused.value.code == "github_rate_limited"
        assert 150 < (refused.value.retry_after or 0) <= 180
        assert calls(town).total() == 0

    @pytest.mark.usefixtures("quiet")
    def test_webhook_of_a_repository_becomes_a_comparison_while_paused(self, town: Town) -> None:
        repository = town.host.organization("acme").repository("web").record
        town.sql("UPDATE repositories SET name = 'former'")
        refresh_repository(town.jobs, town.github, repository.id)
        assert not sync_due(town.jobs, town.github)
        assert calls(town).total() == 0
        town.sql("UPDATE installations SET paused_until = NULL")
        assert sync_due(town.jobs, town.github)
        assert town.sql("SELECT name FROM repositories") == [("web",)]
