"""What to do next with the stop of a repository or organisation: it follows from what is recorded, and the time."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from services.enforcement.ruleset_facts import RulesetFacts

HELD_FOR = timedelta(seconds=5)
"""How often a stop that is in force is looked at."""
READ_AGAIN = timedelta(seconds=2)
"""How often it is looked whether a stop was seen that has been written."""


@dataclass(frozen=True, slots=True)
class StopStep:
    """What to do next with the stop of a place, and when to look again after a step that needs no call."""

    action: Literal["write", "write_again", "forget", "count", "read", "wait"]
    """`write` the ruleset, as it has to be; `write_again` the checks of what GitHub merges by itself; `forget`, since
    no stop is needed; `count` one that was seen in force; `read` the rules; `wait`."""
    wait: timedelta = timedelta(0)


def next_step(facts: RulesetFacts, now: datetime, delay: timedelta) -> StopStep:
    """Return what to do next with the stop of a place; `delay` is that of a changed ruleset.

    A repository that leaves its stop to its organisation waits until that is in force; then its own ruleset is written.
    """
    is_on = facts.needs_stop or facts.stop is not None
    renamed = facts.wanted != facts.named
    if not is_on and facts.stop_ending_at is None:
        if facts.left == "beginning":
            return StopStep("wait", HELD_FOR)
        return StopStep("write" if renamed and facts.left == "in force" else "forget")
    if is_on and (not facts.needs_stop or facts.stop is None or facts.stop_written_at is None or renamed):
        return StopStep("write")
    if facts.stop_ending_at is not None:
        left = facts.stop_ending_at + delay - now
        if left <= timedelta(0) or not is_on:
            return StopStep("write_again") if left <= timedelta(0) else StopStep("wait", left)
    if facts.is_seen and not facts.is_reported:
        wait = READ_AGAIN if facts.leaving else HELD_FOR
        return StopStep("wait" if facts.stop_in_force_at is not None else "count", wait)
    return StopStep("write") if facts.stop_in_force_at is not None else _look_for(facts, now, delay)


def _look_for(facts: RulesetFacts, now: datetime, delay: timedelta) -> StopStep:
    """Return what to do until a stop that was written is seen; if rules do not show it in time, people changed it."""
    effective_at = (facts.stop_written_at or now) + delay
    read_at = (each.read_at for each in facts.staying if each.stop != facts.stop)
    missed_at = [at for at in read_at if at is not None and at >= effective_at]
    left = max([effective_at, *(at + HELD_FOR for at in missed_at)]) - now
    if left > timedelta(0):
        return StopStep("wait", left)
    return StopStep("write") if missed_at else StopStep("read", READ_AGAIN)
