"""What people do to branches and to the ruleset of frozen branches, and what is done about it."""

from typing import Any

from rules.rulesets.frozen_branches import NAME
from services.enforcement.frozen_branches import write_due
from tests.harness.github_harness import Harness
from tests.jobs.probes.requests import probe
from tools.fake_github.model.records import Ruleset

REFS = "/repos/acme/web/git/refs"


def settle(harness: Harness) -> None:
    """Write what is due, and probe the branches, until nothing is due."""
    harness.run_until_idle()
    for _ in range(20):
        if not (write(harness) + probe(harness)):
            return
    raise AssertionError("rulesets do not come to rest")


def write(harness: Harness) -> int:
    """Bring rulesets up to date until none is due; return how many were."""
    written = 0
    while write_due(harness.jobs, harness.github):
        written += 1
        assert written < 100, "rulesets do not come to rest"
    return written


def hurry(harness: Harness) -> None:
    """Make what is to be tried again due now."""
    harness.sql("UPDATE frozen_branch_rulesets SET due_at = clock_timestamp() WHERE due_at IS NOT NULL")


def ours(harness: Harness) -> list[Ruleset]:
    return [each for each in harness.fake_github.world.rulesets.values() if each.name.startswith(NAME)]


def named(harness: Harness) -> list[str]:
    """Return the branches that the only ruleset of frozen branches names; it is active if there are any."""
    [ruleset] = ours(harness)
    include: list[str] = ruleset.conditions["ref_name"]["include"]
    assert (ruleset.enforcement == "active") == bool(include)
    return [ref.removeprefix("refs/heads/") for ref in include]


def row(harness: Harness) -> Any:
    [found] = harness.sql("SELECT * FROM frozen_branch_rulesets")
    return found


def deletes(harness: Harness, branch: str) -> int:
    return harness.person("DELETE", f"{REFS}/heads/{branch}").status_code


def creates(harness: Harness, branch: str) -> int:
    sha = harness.record().branches["main"]
    return harness.person("POST", REFS, {"ref": f"refs/heads/{branch}", "sha": sha}).status_code


def renames(harness: Harness, branch: str, new: str) -> int:
    return harness.person("POST", f"/repos/acme/web/branches/{branch}/rename", {"new_name": new}).status_code


def scope(harness: Harness, branch: str) -> dict[str, Any]:
    """Return the scope of a freeze of one branch."""
    return {"type": "branch", "branchId": harness.branches[f"acme/web:{branch}"].id}
