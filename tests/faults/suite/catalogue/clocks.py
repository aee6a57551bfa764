"""Clocks that are ten minutes off: PostgreSQL's clock rules, and GitHub's own where its tokens are concerned."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from time import monotonic

from integrations.github import CALL_DEADLINE_SECONDS
from tests.faults.suite.catalogue.steps import (
    LEASE,
    first_caught,
    is_right,
    is_settled,
    last_started,
    trap_writes,
    wait_for_workers,
)
from tests.faults.suite.catalogue.sweeps import all_ended, freezes_that_end, require_once
from tests.faults.suite.processes import Process, wait_until
from tests.faults.suite.trial import Trial, fault
from tools.fake_github.model.records import Repository

OFF = 600.0
"""Seconds: more than a lease, more than GitHub forgives, and more than the App's tokens live."""


def start_with_clock(processes: Iterable[Process], shift: float) -> None:
    """Restart processes with clocks that are wrong by so many seconds."""
    for process in processes:
        process.set_clock(shift)
        process.start()


def database_time(trial: Trial, seconds: float) -> str:
    """Return what time PostgreSQL will think it is so many seconds from now."""
    rows = trial.stack.sql("SELECT clock_timestamp()")
    return str((rows[0][0] + timedelta(seconds=seconds)).isoformat())


def is_frozen(trial: Trial, repository: str) -> bool:
    """Ask the API whether `main` of a repository is frozen."""
    answer = trial.client.insist("GET", f"/v1/freeze-state?repo={repository}&branch=main")
    return bool(answer.json()["frozen"])


def writes_in(trial: Trial, repositories: Iterable[Repository]) -> int:
    """Count the verdicts that were written in some repositories."""
    ids = {repository.id for repository in repositories}
    with trial.stack.github.world.lock:
        return sum(write["repositoryId"] in ids for write in trial.stack.github.calls.writes)


def leases(trial: Trial) -> dict[str, tuple[str, datetime]]:
    """Return the token and the end of the lease on each of `acme`'s branches that has one."""
    rows = trial.stack.sql(
        "SELECT id, lease_token, lease_until FROM checks WHERE lease_token IS NOT NULL AND organization_id = %s",
        trial.stack.acme.id,
    )
    return {branch: (token, until) for branch, token, until in rows}


def stolen(trial: Trial, held: Mapping[str, tuple[str, datetime]]) -> list[str]:
    """Return the branches whose leases others have taken, though they had not ended by the database's clock."""
    now = leases(trial)
    [[time]] = trial.stack.sql("SELECT clock_timestamp()")
    return [
        branch
        for branch, (token, until) in held.items()
        if time < until and now.get(branch, (token, until))[0] != token
    ]


@fault("One worker's clock is ten minutes behind, another's ahead: tokens are bought, and no lease is stolen")
def workers_disagree(trial: Trial) -> None:
    stack = trial.stack
    behind, ahead = stack.reconcilers
    before = last_started(stack)
    start_with_clock([ahead], OFF)
    wait_for_workers(stack, before)
    ahead.pause()
    before = last_started(stack)
    start_with_clock([behind], -OFF)
    wait_for_workers(stack, before)
    traps = trap_writes(stack)
    freeze = trial.client.freeze()
    assert first_caught(traps, 30) is behind
    given_up = monotonic() + CALL_DEADLINE_SECONDS - 1
    ahead.resume()
    held, others = leases(trial), writes_in(trial, stack.beta.repositories)
    trial.require(held, "the one behind holds leases")

    def has_worked() -> bool:
        if monotonic() < given_up:  # later the one behind gives its leases back
            trial.require(not stolen(trial, held), "the one ahead has taken a lease that had not ended")
        return writes_in(trial, stack.beta.repositories) >= others + 3

    wait_until(has_worked, "the work of the one ahead", 30)
    wait_until(lambda: stack.github.calls.by_status[401] >= 2, "the tokens that both made by their own clocks", 30)
    traps[behind].release()
    wait_until(lambda: is_right(stack), "the freeze", 60)
    trial.client.lift(freeze)
    trial.injected()


@fault(
    "A worker whose clock is ten minutes ahead is killed: its leases end by the database's clock",
    within=90,
    quick=False,
)
def killed_with_its_clock_ahead(trial: Trial) -> None:
    stack = trial.stack
    before = last_started(stack)
    start_with_clock(stack.reconcilers, OFF)
    wait_for_workers(stack, before)
    traps = trap_writes(stack)
    trial.client.freeze()
    reconciler = first_caught(traps, 30)
    reconciler.kill()
    trial.injected()
    traps[reconciler].cut()
    stack.skip(LEASE)
    wait_until(lambda: is_right(stack), "the other worker", 90)


@fault("The API's clock is ten minutes ahead: freezes and keys end by the database's clock", quick=False, shift=OFF)
@fault("The API's clock is ten minutes behind: freezes and keys end by the database's clock", quick=False, shift=-OFF)
def api_off_by(trial: Trial, shift: float) -> None:
    stack, client = trial.stack, trial.client
    start_with_clock([stack.api], shift)
    stack.wait_for_api()
    _require_keys_to_end_in_time(trial)
    long, short = stack.acme.names[4], stack.acme.names[0]
    before = database_time(trial, 0)
    scope = {"type": "repositories", "repositories": [long]}
    freeze = client.freeze(scope, endsAt=database_time(trial, OFF / 2))
    shown = client.insist("GET", f"/v1/freezes/{freeze}").json()
    started = stack.sql("SELECT %s::timestamptz BETWEEN %s AND clock_timestamp()", shown["startedAt"], before)
    trial.require(started[0][0], f"a freeze that began now began at {shown['startedAt']}")
    over = {"scope": scope, "reason": "Too late", "impactAcknowledged": True, "endsAt": database_time(trial, -OFF / 2)}
    answer = client.insist("POST", "/v1/freezes", over)
    trial.require(answer.status_code == 422, f"an end that is over was answered with {answer.status_code}")
    ending = freezes_that_end(trial, 1.5, 1)
    trial.require(is_frozen(trial, short), "what begins now is in force now")
    wait_until(lambda: not is_frozen(trial, short), "the end of the short freeze", 30)
    ends = stack.sql("SELECT ends_at <= clock_timestamp() FROM freezes WHERE id = ANY(%s)", ending)
    trial.require(ends[0][0], "it ended before its time")
    trial.require(is_frozen(trial, long), "what ends later is in force")
    trial.injected()


def _key_ends(trial: Trial, seconds: float | None) -> None:
    trial.stack.sql(
        "UPDATE api_keys SET expires_at = clock_timestamp() + make_interval(secs => %s) WHERE organization_id = %s",
        seconds,
        trial.stack.acme.id,
    )


def _require_keys_to_end_in_time(trial: Trial) -> None:
    """Require keys to end by the database's clock."""
    ask = trial.client.request
    try:
        _key_ends(trial, OFF / 2)
        trial.require(ask("GET", "/v1/freezes").status_code == 200, "a key that ends later is taken")
        _key_ends(trial, -OFF / 2)
        trial.require(ask("GET", "/v1/freezes").status_code == 401, "a key that has ended is refused")
    finally:
        _key_ends(trial, None)


@fault("The workers' clocks are ten minutes ahead: they end freezes by the database's clock", quick=False, shift=OFF)
@fault("The workers' clocks are ten minutes behind: they end freezes by the database's clock", quick=False, shift=-OFF)
def workers_off_by(trial: Trial, shift: float) -> None:
    stack = trial.stack
    start_with_clock(stack.reconcilers, shift)
    last = {"type": "repositories", "repositories": [stack.acme.names[4]]}
    long = trial.client.freeze(last, endsAt=database_time(trial, OFF / 2))
    ending = freezes_that_end(trial, 1.5, 3)
    wait_until(lambda: all_ended(trial, ending), "recording the ends", 60)
    require_once(trial, ending)
    early = stack.sql("SELECT id FROM freezes WHERE id = ANY(%s) AND ended_at < ends_at", ending)
    trial.require(not early, f"ended before their time: {early}")
    trial.require(not all_ended(trial, [long]), "what ends later is in force")
    wait_until(lambda: is_settled(stack), "the end of the short freezes", 60)
    trial.injected()
