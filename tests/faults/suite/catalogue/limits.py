"""GitHub's rate limits: the whole installation pauses for as long as GitHub says, and then continues."""

import time
from collections import Counter

from tests.faults.suite.processes import wait_until
from tests.faults.suite.trial import Trial, fault
from tools.fake_github.limits import HOUR, Window

WRITES = "createCheckRun"
RETRY_AFTER = 3
"""Seconds that GitHub's `Retry-After` says."""
SHORTEST = 60
"""Seconds that are waited where it does not say."""
SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
PRIMARY = "API rate limit exceeded for installation ID 4711."


def calls(trial: Trial) -> Counter[str]:
    """Return the number of GitHub's calls for `acme`'s installation; the others do not pause."""
    mine = f"installation {trial.stack.acme.installation_id}:"
    with trial.stack.github.world.lock:
        by_caller = trial.stack.github.calls.by_caller
        return Counter({call: count for call, count in by_caller.items() if call.startswith(mine)})


def pause(trial: Trial) -> float:
    """Return for how many seconds every worker is kept away from `acme`'s installation."""
    rows = trial.stack.sql(
        "SELECT extract(epoch FROM paused_until - clock_timestamp()) FROM installations WHERE id = %s",
        trial.stack.acme.installation_id,
    )
    return float(rows[0][0] or 0)


def be_refused(trial: Trial, **answer: object) -> float:
    """Freeze `acme`, have its first write refused in this way, and return how long it is then quiet.

    A call that was under way when the refusal came may still be answered: after that there is none.
    """
    refusal = trial.stack.github.faults.add("error", WRITES, count=1, **answer)
    trial.client.freeze()
    wait_until(lambda: refusal.struck, "the refusal", 20)
    wait_until(lambda: pause(trial) > 0, "the pause", 10)
    return pause(trial)


def require_silence(trial: Trial, seconds: float) -> None:
    """Require that there are no calls for so many seconds."""
    time.sleep(0.5)
    before = calls(trial)
    time.sleep(max(seconds, 0))  # on a busy machine the limit may have passed
    more = calls(trial) - before
    trial.require(not more, f"calls in spite of the limit: {dict(more)}")


def forget_the_lesson(trial: Trial) -> None:
    """Forget what the refusal has taught about the counting of content: it would slow everything for a day."""
    trial.stack.sql("UPDATE installations SET content_counting = NULL, content_learnt_at = NULL")


def restart_reconcilers(trial: Trial) -> None:
    """Restart the processes that remember the pause, so that a quick run need not wait for it."""
    if trial.stack.quick:
        for reconciler in trial.stack.reconcilers:
            reconciler.kill()
            reconciler.start()


@fault(
    "A secondary limit (403) with Retry-After: the whole installation waits for it, and goes on", load=False, status=403
)
@fault(
    "A secondary limit (429) with Retry-After: the whole installation waits for it, and goes on",
    load=False,
    quick=False,
    status=429,
)
def secondary(trial: Trial, status: int) -> None:
    waits = be_refused(trial, status=status, message=SECONDARY, headers={"Retry-After": str(RETRY_AFTER)})
    forget_the_lesson(trial)
    trial.require(waits <= RETRY_AFTER + 2, f"a pause of {waits:.1f} s instead of {RETRY_AFTER}")
    require_silence(trial, waits - 1.5)
    trial.injected()


@fault("A secondary limit that does not say how long: the whole installation waits a minute", within=120, load=False)
def secondary_without_words(trial: Trial) -> None:
    waits = be_refused(trial, status=403, message=SECONDARY)
    forget_the_lesson(trial)
    trial.require(waits > SHORTEST - 3, f"a pause of {waits:.1f} s")
    require_silence(trial, 2)
    restart_reconcilers(trial)
    trial.injected()
    trial.stack.skip(SHORTEST * 2)


@fault(
    "The hourly allowance is spent (403): nothing is asked until it is filled again",
    load=False,
    quick=False,
    status=403,
)
@fault("The hourly allowance is spent (429): nothing is asked until it is filled again", load=False, status=429)
def primary(trial: Trial, status: int) -> None:
    reset = str(int(time.time()) + RETRY_AFTER + 1)
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": reset, "x-ratelimit-resource": "graphql"}
    waits = be_refused(trial, status=status, message=PRIMARY, headers={**headers, "x-ratelimit-limit": "5000"})
    trial.require(waits <= RETRY_AFTER + 3, f"a pause of {waits:.1f} s instead of {RETRY_AFTER}")
    require_silence(trial, waits - 1.5)
    trial.injected()


@fault("The hourly allowance of points is used up, reported with status 200: it waits for the reset", load=False)
def points_run_out(trial: Trial) -> None:
    github = trial.stack.github
    with github.world.lock:
        window = _points(trial)
        window.start = github.world.clock().timestamp() - HOUR + RETRY_AFTER + 1
        github.settings.graphql_points_per_hour = int(window.used) + 1
        github.settings.primary_limits = True
    try:
        trial.client.freeze()
        wait_until(lambda: pause(trial) > 0, "the pause", 20)
        trial.require(pause(trial) <= RETRY_AFTER + 3, f"a pause of {pause(trial):.1f} s instead of {RETRY_AFTER}")
        wait_until(lambda: pause(trial) <= 0, "the reset", 30)
    finally:
        github.settings.primary_limits, github.settings.graphql_points_per_hour = False, None
    trial.injected()


def _points(trial: Trial) -> Window:
    """Return what `acme`'s installation has spent of its points."""
    limits = trial.stack.github.limits
    return limits._window(f"installation {trial.stack.acme.installation_id}", "graphql", HOUR)
