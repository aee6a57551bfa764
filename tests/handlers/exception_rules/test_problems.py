"""What is wrong with a rule of exceptions: every problem is named with its place, and nothing is stored."""

from typing import Any

import pytest

from tests.handlers.callers import Caller, Tenant, refusal
from tests.handlers.exception_rules.rules import DOCS, RULES, SMALL, WANTED, new_rule, path_of

pytestmark = pytest.mark.usefixtures("web")
ONLY = "/allow/all/0/paths/onlyMatching"
ORGANIZATION = {"type": "organization"}


def allow(*members: Any) -> dict[str, Any]:
    return {"allow": {"all": list(members)}}


def applies_to(scope: Any = ORGANIZATION, freezes: str = "all", **more: Any) -> dict[str, Any]:
    return {"appliesTo": {"scope": scope, "freezes": freezes, **more}}


def test_every_problem_is_named_with_its_place(acme: Tenant, admin: Caller) -> None:
    cases: list[tuple[dict[str, Any], str, list[str]]] = [
        ({"title": "x"}, "validation_failed", ["/title"]),
        ({"limits": {"singleMerge": True}}, "missing_parameter", ["/limits/perFreeze", "/limits/singleMerge"]),
        ({"limits": {"perFreeze": 0}}, "validation_failed", ["/limits/perFreeze"]),
        ({"allow": {}}, "validation_failed", ["/allow"]),
        ({"allow": {"all": [DOCS], "any": [DOCS]}}, "validation_failed", ["/allow"]),
        ({"allow": {"none": [DOCS]}}, "validation_failed", ["/allow/none"]),
        (allow({"title": {"matches": "hotfix"}}), "validation_failed", ["/allow/all/0/title"]),
        (allow({}), "validation_failed", ["/allow/all/0"]),
        (allow(DOCS | SMALL), "validation_failed", ["/allow/all/0"]),
        (allow({"any": [{"all": [DOCS]}]}), "validation_failed", ["/allow/all/0/any/0/all"]),
        (allow({"paths": {}}), "validation_failed", ["/allow/all/0/paths"]),
        (allow({"author": {}}), "validation_failed", ["/allow/all/0/author"]),
        (
            allow({"author": {"accounts": ["a b", "-x"]}}),
            "validation_failed",
            [f"/allow/all/0/author/accounts/{n}" for n in (0, 1)],
        ),
        (allow({"author": {"teams": ["captains"]}}), "validation_failed", ["/allow/all/0/author/teams/0"]),
        (allow({"label": {"name": "hotfix"}}), "missing_parameter", ["/allow/all/0/label/setBy"]),
        (
            allow({"approvals": {"fromTeam": "acme/x", "atLeast": 11}}),
            "validation_failed",
            ["/allow/all/0/approvals/atLeast"],
        ),
        (allow(DOCS, {"head": {"sameRepository": False}}), "validation_failed", ["/allow/all/1/head/sameRepository"]),
        (allow(*[DOCS] * 11), "validation_failed", ["/allow/all"]),
        (allow({"paths": {"onlyMatching": ["docs/*"] * 21}}), "validation_failed", [ONLY]),
        (allow(SMALL), "validation_failed", ["/allow"]),
        ({"allow": {"any": [DOCS, SMALL]}}, "validation_failed", ["/allow/any/1"]),
        ({"reason": "no      "}, "validation_failed", ["/reason"]),
        (
            applies_to({"type": "branch", "repository": "acme/gone", "branch": "main"}),
            "invalid_parameter",
            ["/appliesTo/scope/repository"],
        ),
        (
            applies_to({"type": "repositories", "repositories": ["acme/web", "acme/gone"]}),
            "invalid_parameter",
            ["/appliesTo/scope/repositories/1"],
        ),
        (applies_to(ORGANIZATION | {"branches": ["gone"]}), "no_targets_in_scope", ["/appliesTo/scope"]),
        (applies_to(freezes="schedules"), "validation_failed", ["/appliesTo/scheduleIds"]),
        (
            applies_to(freezes="manual", scheduleIds=["sch_x"]),
            "invalid_parameter",
            ["/appliesTo/scheduleIds/0", "/appliesTo/scheduleIds"],
        ),
        (
            {"reason": "short   ", **applies_to(freezes="schedules", scheduleIds=["sch_x"]), **allow(SMALL)},
            "validation_failed",
            ["/reason"],
        ),
        (
            {**applies_to(ORGANIZATION | {"branches": ["gone"]}, "schedules", scheduleIds=["sch_x"]), **allow(SMALL)},
            "no_targets_in_scope",
            ["/appliesTo/scope", "/appliesTo/scheduleIds/0", "/allow"],
        ),
    ]
    path = path_of(new_rule(admin))
    for given, code, places in cases:
        status = 400 if code == "missing_parameter" else 422
        for answer in (admin.post(RULES, {**WANTED, **given, "name": "Another"}), admin.patch(path, given)):
            assert [row["path"] for row in refusal(answer, status, code)["details"]] == places, given
    assert acme.audit() == ["exception_rule.created"]


def test_name_that_another_rule_has_is_named_beside_other_problems(admin: Caller) -> None:
    new_rule(admin)

    error = refusal(admin.post(RULES, {**WANTED, **allow(SMALL)}), 422, "validation_failed")

    assert [row["path"] for row in error["details"]] == ["/allow", "/name"]
