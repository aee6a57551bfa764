"""What must be true of stops at any moment, and at rest."""

from rules.rulesets.frozen_branches import NAME
from tests.harness.blocking_surfaces import REPLACING
from tests.harness.github_harness import Harness
from tests.jobs.frozen_branches.requests import write
from tests.jobs.probes.requests import probe
from tests.jobs.stops.requests import contexts, stop, ways
from tools.fake_github.model.records import Ruleset

Branch = tuple[str, str]
"""The name of a repository of acme, and of a branch."""
MAX_SECONDS = 60
"""How long a branch of an ended freeze may stay blocked where GitHub lets us write."""
_STEP = 5


def frozen(harness: Harness) -> dict[Branch, bool]:
    """Return the frozen branches of acme, and whether every freeze of one is blocked."""
    rows = harness.sql(
        "SELECT r.name AS repository, b.name, bool_or(f.blocked_at IS NOT NULL) AS blocked FROM freezes f "
        "JOIN freeze_targets t ON t.freeze_id = f.id JOIN watched_branches b ON b.id = t.branch_id "
        "JOIN repositories r ON r.id = b.repository_id WHERE t.operation = 'apply' "
        "AND f.ended_at IS NULL AND f.started_at IS NOT NULL GROUP BY 1, 2"
    )
    return {(row.repository, row.name): row.blocked for row in rows}


def released(harness: Harness) -> set[Branch]:
    """Return the branches of ended freezes, all of which are released."""
    rows = harness.sql(
        "SELECT r.name AS repository, b.name FROM freezes f JOIN freeze_targets t ON t.freeze_id = f.id "
        "JOIN watched_branches b ON b.id = t.branch_id JOIN repositories r ON r.id = b.repository_id "
        "WHERE f.ended_at IS NOT NULL GROUP BY 1, 2 HAVING bool_and(f.released_at IS NOT NULL)"
    )
    return {(row.repository, row.name) for row in rows}


def entering(harness: Harness, name: str, repository: str = "web") -> set[str]:
    """Return the ways in which something could merge into a branch, or be pushed to it, as GitHub answers now."""
    return ways(harness, name, repository) - REPLACING


def assert_honest(harness: Harness) -> None:
    """Check that nothing merges into a blocked branch, that released ones let in, and that no other is stopped."""
    held = frozen(harness)
    for (repository, name), blocked in held.items():
        found = entering(harness, name, repository) if blocked else set()
        assert not found, f"{name} of {repository} is blocked and lets in {found}"
    for repository, name in released(harness) - held.keys():
        found = ways(harness, name, repository)
        assert found >= {"merge", "push"}, f"{name} of {repository} is released and lets in {found} alone"
    for ruleset in harness.fake_github.world.rulesets.values():
        if is_active(ruleset) and contexts(ruleset):
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
    harness.pass_time(seconds=_STEP)


def wrong(harness: Harness) -> list[str]:
    """Return what is not as it has to be at rest."""
    blocked, rulesets = frozen(harness), harness.fake_github.world.rulesets.values()
    found = [f"{each} is required" for ruleset in rulesets for each in contexts(ruleset) if is_active(ruleset)]
    for repository, name in _watched(harness):
        if (repository, name) in blocked:
            found += [f"{name} of {repository} is open"] if entering(harness, name, repository) else []
        elif not ways(harness, name, repository) >= {"merge", "push"}:
            found.append(f"{name} of {repository} is not free")
    if harness.sql("SELECT FROM branch_enforcement WHERE stop IS NOT NULL"):
        found.append("a branch counts as stopped")
    if harness.sql("SELECT FROM organization_stops WHERE stop_context IS NOT NULL"):
        found.append("a stop of the organization may be on")
    return found + [f"{name} does not count as blocked" for name, blocks in blocked.items() if not blocks]


def is_active(ruleset: Ruleset) -> bool:
    return ruleset.name.startswith(NAME) and ruleset.enforcement == "active"


def _watched(harness: Harness) -> list[Branch]:
    found = [key.removeprefix("acme/").partition(":") for key in harness.branches]
    return [(repository, name) for repository, _colon, name in found if name]
