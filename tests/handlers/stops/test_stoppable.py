"""What enforcement says could be stopped at once is what a freeze stops, and it says what is missing elsewhere."""

import pytest

from models.repositories import WatchedBranch
from tests import factories
from tests.handlers.callers import Tenant
from tests.handlers.stops.requests import Stopped

GAPS = {
    "no_permission": "UPDATE installations SET permissions = permissions - 'administration'",
    "not_authorized": "UPDATE repositories SET rulesets_authorized_at = NULL",
    "no_rule": "UPDATE branch_enforcement SET decisive_check = NULL",
    "not_read": "UPDATE branch_enforcement SET rules_read_at = rules_read_at - interval '31 minutes'",
    "archived": "UPDATE repositories SET archived = true, rulesets_authorized_at = NULL",
}
"""By gap: what makes it."""
FAILED = """
    INSERT INTO frozen_branch_rulesets (repository_id, organization_id, last_error_code)
    SELECT id, organization_id, 'github_error' FROM repositories
"""


def test_branch_that_can_be_stopped_is_stopped(stopped: Stopped) -> None:
    shown = stopped.get("/v1/enforcement")
    assert shown["stops"] == {"canStop": 1, "cannotStop": 0, "gaps": []}
    [branch] = shown["data"]
    assert (branch["canStop"], branch["stopGaps"]) == (True, [])
    stopped.start()
    assert stopped.freeze()["targets"]["stopped"] == 1


@pytest.mark.parametrize("gap", GAPS)
def test_branch_that_cannot_be_stopped_names_what_is_missing(stopped: Stopped, gap: str) -> None:
    stopped.workers.sql(GAPS[gap])
    shown = stopped.get("/v1/enforcement")
    [branch] = shown["data"]
    assert branch["canStop"] is False
    [missing] = branch["stopGaps"]
    assert missing["code"] == gap
    assert shown["stops"] == {"canStop": 0, "cannotStop": 1, "gaps": [{**missing, "branchCount": 1}]}
    detail = stopped.get(f"/v1/enforcement/branches/{branch['branchId']}")
    assert (detail["canStop"], detail["stopGaps"]) == (False, [missing])
    stopped.start()
    assert stopped.freeze()["targets"]["stopped"] == 0


def test_branch_whose_ruleset_github_refused_cannot_be_stopped(stopped: Stopped) -> None:
    stopped.workers.sql(FAILED)
    [branch] = stopped.get("/v1/enforcement")["data"]
    assert [gap["code"] for gap in branch["stopGaps"]] == ["not_written"]


def test_branch_of_a_suspended_app_cannot_be_stopped(stopped: Stopped) -> None:
    stopped.workers.sql("UPDATE installations SET state = 'suspended', permissions = '{}'")
    [branch] = stopped.get("/v1/enforcement")["data"]
    assert [gap["code"] for gap in branch["stopGaps"]] == ["installation_suspended"]


def test_gaps_are_counted_over_all_branches(acme: Tenant, web: WatchedBranch) -> None:
    factories.branch_enforcement(acme.session, web)
    shown = acme.key("repo:read").get("/v1/enforcement").json()["stops"]
    assert (shown["canStop"], shown["cannotStop"]) == (0, 1)
    assert [(gap["code"], gap["branchCount"]) for gap in shown["gaps"]] == [
        ("no_permission", 1),
        ("not_authorized", 1),
    ]


def test_setup_says_which_branches_could_be_stopped(stopped: Stopped) -> None:
    body = {"scope": {"type": "organization"}, "mode": "plan"}
    admin = stopped.frozen.acme.person("admin")
    [change] = admin.post("/v1/enforcement/setup", body).json()["changes"]
    assert [(each["branch"], each["canStop"], each["stopGaps"]) for each in change["branches"]] == [("main", True, [])]
    stopped.workers.sql(GAPS["not_authorized"])
    [change] = admin.post("/v1/enforcement/setup", body).json()["changes"]
    [each] = change["branches"]
    assert (each["canStop"], [gap["code"] for gap in each["stopGaps"]]) == (False, ["not_authorized"])
