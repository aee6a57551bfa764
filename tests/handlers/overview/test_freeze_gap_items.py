"""Attention to frozen branches that GitHub does not wholly block: one item for each cause, from what was read."""

from collections import Counter
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from models.repositories import WatchedBranch
from rules.freezes.blocking import GAPS
from services.overview.alert_sources.blocking import _state_of_gap
from services.overview.alerts import SEVERITIES
from tests import factories
from tests.handlers.callers import Caller, Tenant

HEAD = "a" * 40


@pytest.fixture
def frozen(acme: Tenant, session: Session, web: WatchedBranch) -> list[WatchedBranch]:
    """Return two branches that are frozen and blocked."""
    branches = [web, factories.watched(session, acme.organization, "acme/api")]
    for branch in branches:
        factories.branch_enforcement(session, branch)
    factories.freeze(session, acme.organization, branches)
    return branches


def gaps(viewer: Caller) -> list[dict[str, Any]]:
    """Return the items, of which the overview counts as many: it takes the gaps from the branches that it counts."""
    items = viewer.get("/v1/attention").json()["data"]
    severities = Counter(item["severity"] for item in items)
    assert viewer.get("/v1/overview").json()["attention"] == {of: severities[of] for of in SEVERITIES}
    return [item for item in items if item["type"] == "freeze_gap"]


def change(session: Session, statement: str) -> None:
    session.execute(text(statement))
    session.flush()


@pytest.mark.parametrize(
    ("statement", "gap", "severity"),
    [
        ("UPDATE branch_enforcement SET decisive_check = NULL", "no_rule", "critical"),
        ("UPDATE repositories SET removed_at = now()", "removed", "critical"),
        ("UPDATE branch_enforcement SET open_ways = '{deletion}'", "deletion", "warning"),
        ("UPDATE branch_enforcement SET open_ways = '{forgery}'", "forgery", "warning"),
        ("UPDATE branch_enforcement SET open_ways = '{default_branch}'", "default_branch", "warning"),
        ("UPDATE branch_enforcement SET rules_read_at = NULL", "not_read", "warning"),
        ("UPDATE branch_enforcement SET rules_read_at = now() - interval '1 hour'", "outdated", "warning"),
    ],
)
def test_each_gap_is_one_item_for_all_branches(
    session: Session, frozen: list[WatchedBranch], viewer: Caller, statement: str, gap: str, severity: str
) -> None:
    assert gaps(viewer) == []
    change(session, statement)
    [item] = gaps(viewer)
    assert item["severity"] == severity
    assert item["message"].startswith("2 frozen branches ")
    assert item["message"].endswith(f"such as acme/api:main. {GAPS[gap]}")
    change(session, "UPDATE freezes SET ended_at = now()")
    assert gaps(viewer) == []


@pytest.mark.parametrize(
    ("statement", "gap"),
    [
        ("UPDATE installations SET state = 'suspended'", "suspended"),
        ("UPDATE installations SET paused_until = now() + interval '40 minutes'", "rate_limit"),
        ("UPDATE checks SET last_error_code = 'maintenance'", "restore"),
    ],
)
def test_success_that_waits_is_critical_at_once(
    session: Session, web: WatchedBranch, frozen: list[WatchedBranch], viewer: Caller, statement: str, gap: str
) -> None:
    change(session, statement)
    assert gaps(viewer) == []
    factories.head_check(session, web, HEAD, "success")
    [item] = gaps(viewer)
    assert (item["severity"], item["subject"]["type"]) == ("critical", "organization")
    assert item["message"] == f"1 frozen branch is not blocked, such as acme/web:main. {GAPS[gap]}"


def test_checks_that_are_being_written_are_no_item(
    session: Session, web: WatchedBranch, frozen: list[WatchedBranch], viewer: Caller
) -> None:
    factories.head_check(session, web, HEAD, "success")
    assert gaps(viewer) == []


def test_two_ways_are_two_items(session: Session, frozen: list[WatchedBranch], viewer: Caller) -> None:
    change(session, "UPDATE branch_enforcement SET open_ways = '{deletion,forgery}'")
    assert {item["message"].split(". ", 1)[1] for item in gaps(viewer)} == {GAPS["deletion"], GAPS["forgery"]}


def test_every_gap_has_a_state() -> None:
    assert _state_of_gap().keys() == GAPS.keys()


def test_branches_of_a_window_that_no_process_has_begun_are_no_item(
    session: Session, acme: Tenant, web: WatchedBranch, viewer: Caller
) -> None:
    factories.branch_enforcement(session, web, "red", decisive_check=None)
    due = factories.occurrence(session, factories.schedule(session, acme.organization), starts_at=factories.now())
    assert viewer.get("/v1/overview").json()["blocking"]["total"] == 1
    assert gaps(viewer) == []
    change(session, f"UPDATE occurrences SET skip_reason = 'manual' WHERE id = '{due.id}'")
    assert viewer.get("/v1/overview").json()["blocking"]["total"] == 0
