"""What must be true of stops at any moment, and at rest."""

from datetime import timedelta

from rules.rulesets.frozen_branches import NAME
from tests.harness.blocking_surfaces import REPLACING
from tests.harness.github_harness import Harness
from tests.jobs.frozen_branches.requests import write
from tests.jobs.probes.requests import probe
from tests.jobs.stops.requests import contexts, pass_time, required, stop, ways

BRANCHES = ("main", "next")
MAX_SECONDS = 60
"""How long a branch of an ended freeze may stay blocked where GitHub lets us write."""
_STEP = 5


def frozen(harness: Harness) -> dict[str, bool]:
    """Return the frozen branches of acme/web, and whether every freeze of one is blocked."""
    rows = harness.sql(
        "SELECT b.name, bool_or(f.blocked_at IS NOT NULL) AS blocked FROM freezes f "
        "JOIN freeze_targets t ON t.freeze_id = f.id JOIN watched_branches b ON b.id = t.branch_id "
        "JOIN repositories r ON r.id = b.repository_id WHERE r.name = 'web' AND t.operation = 'apply' "
        "AND f.ended_at IS NULL AND f.started_at IS NOT NULL GROUP BY b.name"
    )
    return {row.name: row.blocked for row in rows}


def released(harness: Harness) -> set[str]:
    """Return the branches of acme/web of ended freezes, all of which are released."""
    rows = harness.sql(
        "SELECT b.name FROM freezes f JOIN freeze_targets t ON t.freeze_id = f.id "
        "JOIN watched_branches b ON b.id = t.branch_id JOIN repositories r ON r.id = b.repository_id "
        "WHERE r.name = 'web' AND f.ended_at IS NOT NULL GROUP BY b.name HAVING bool_and(f.released_at IS NOT NULL)"
    )
    return {row.name for row in rows}


def entering(harness: Harness, name: str) -> set[str]:
    """Return the ways in which something could merge into a branch, or be pushed to it, as GitHub answers now."""
    return ways(harness, name) - REPLACING


def assert_honest(harness: Harness) -> None:
    """Check that nothing merges into a blocked branch, that released ones let in, and that no other is stopped."""
    held = frozen(harness)
    for name, blocked in held.items():
        assert not (blocked and entering(harness, name)), f"{name} is blocked and lets in {ways(harness, name)}"
    for name in released(harness) - held.keys():
        assert ways(harness, name) >= {"merge", "push"}, f"{name} is released and lets in {ways(harness, name)} alone"
    for ruleset in harness.fake_github.world.rulesets.values():
        if ruleset.name.startswith(NAME) and ruleset.enforcement == "active" and contexts(ruleset):
            assert len(contexts(ruleset)) == 1


def come_right(harness: Harness, seconds: int = MAX_SECONDS) -> None:
    """Let the service work; check that within a minute all is as it has to be, and stays so, and is honest until then.

    As it has to be: frozen branches are closed, the others are open, and no stop is on.
    """
    harness.github._clients.clear()  # they count the pauses of GitHub in real time
    for _ in range(0, seconds, _STEP):
        _work(harness)
        if not wrong(harness):
            break
    assert not (found := wrong(harness)), found
    _work(harness)
    assert not (found := wrong(harness)), found


def _work(harness: Harness) -> None:
    harness.run_until_idle()
    stop(harness)
    write(harness)
    assert_honest(harness)
    probe(harness)
    assert_honest(harness)
    pass_time(harness, timedelta(seconds=_STEP))


def wrong(harness: Harness) -> list[str]:
    """Return what is not as it has to be at rest."""
    found, blocked = [f"{context} is required" for context in required(harness)], frozen(harness)
    free = {name: ways(harness, name) >= {"merge", "push"} for name in BRANCHES if name not in blocked}
    found += [f"{name} is not free" for name, is_free in free.items() if not is_free]
    found += [f"{name} is open" for name in blocked if entering(harness, name)]
    if harness.sql("SELECT FROM branch_enforcement WHERE stop IS NOT NULL"):
        found.append("a branch counts as stopped")
    return found + [f"{name} does not count as blocked" for name, blocks in blocked.items() if not blocks]
