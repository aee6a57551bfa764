"""An organisation in the middle of its work, and the addresses of the pages that show it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

from sqlalchemy import select

from models.exception_rules import ExceptionRule
from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.pull_requests import PullRequest
from models.repositories import WatchedBranch
from rules.ids import new_id
from tests import factories
from tests.web.people.dashboard.conftest import Scene

ADA = {"type": "user", "id": new_id("usr"), "name": "Ada Lovelace"}
GRACE = {"type": "user", "id": new_id("usr"), "name": "Grace Hopper"}
FAILED = {
    "state": "failed",
    "last_error_code": "forbidden",
    "last_error_message": "GitHub refused to write the check: the App lacks the permission checks:write.",
    "attempts": 4,
}


class Filled(NamedTuple):
    """What pages are about."""

    freeze: Freeze
    failed: Freeze
    window: Freeze
    request: PullRequestException
    rule: ExceptionRule


def fill(acme: Scene) -> Filled:
    """Add freezes in each state, windows, requests and exceptions."""
    branches = _add_branches(acme)
    window = _start_window(acme)
    _add_ended_freeze(acme)
    request = _add_exceptions(acme, window)
    freezes = _start_freeze(acme, branches), _start_failed_freeze(acme, branches)
    return Filled(*freezes, window, request, _add_rule(acme))


def _add_branches(acme: Scene) -> list[WatchedBranch]:
    """Watch a branch of each of eight more repositories; the third does not block, the sixth has gaps."""
    names = ("billing", "checkout", "docs", "gateway", "identity", "mobile", "search", "warehouse")
    lights = {"docs": "red", "mobile": "amber"}
    branches = []
    for name in names:
        repository = factories.repository(acme.session, acme.organization, f"acme/{name}")
        branch = factories.branch(acme.session, repository)
        factories.branch_enforcement(acme.session, branch, lights.get(name, "green"))
        branches.append(branch)
    return branches


def _start_freeze(acme: Scene, branches: list[WatchedBranch]) -> Freeze:
    """Start a freeze that is being written: four of six branches are blocked."""
    now = factories.now()
    freeze = factories.freeze(
        acme.session,
        acme.organization,
        reason="Quarter-end close: no changes to billing",
        scope={"type": "glob", "patterns": ["acme/*", "!acme/docs"]},
        created_by=ADA,
        started_at=now - timedelta(minutes=2),
        ends_at=now + timedelta(days=2),
    )
    for number, branch in enumerate(branches[:6]):
        factories.target(acme.session, freeze, branch, state="pending" if number > 3 else "applied", heads_total=3)
    return freeze


def _start_failed_freeze(acme: Scene, branches: list[WatchedBranch]) -> Freeze:
    """Start a freeze one of whose two checks could not be written."""
    now = factories.now()
    freeze = factories.freeze(
        acme.session,
        acme.organization,
        reason="Incident 4711: keep the gateway as it is",
        scope={"type": "repositories", "repositories": ["acme/gateway"]},
        created_by=GRACE,
        started_at=now - timedelta(hours=18),
    )
    factories.target(acme.session, freeze, branches[3], next_attempt_at=now + timedelta(minutes=3), **FAILED)
    factories.target(acme.session, freeze, branches[4], state="applied")
    return freeze


def _start_window(acme: Scene) -> Freeze:
    """Start a window of a schedule that blocks; two more are planned."""
    now = factories.now()
    schedule = factories.schedule(acme.session, acme.organization)
    for days in (5, 12):
        start = now + timedelta(days=days)
        factories.occurrence(acme.session, schedule, starts_at=start, ends_at=start + timedelta(hours=63))
    window = factories.freeze(
        acme.session,
        acme.organization,
        reason="No release team at the weekend",
        source="schedule",
        schedule_id=schedule.id,
        started_at=now - timedelta(hours=5),
        ends_at=now + timedelta(hours=40),
        enforced_at=now,
    )
    factories.target(acme.session, window, acme.web, state="applied", heads_total=2, heads_written=2)
    return window


def _add_ended_freeze(acme: Scene) -> None:
    """Add a freeze that was lifted and released."""
    now = factories.now()
    freeze = factories.freeze(
        acme.session,
        acme.organization,
        reason="Upgrade of the database",
        created_by=GRACE,
        ended_at=now - timedelta(days=1),
        end_reason="lifted",
        ended_by=ADA,
        released_at=now,
    )
    factories.target(acme.session, freeze, acme.api, state="released", operation="release")


def _add_exceptions(acme: Scene, window: Freeze) -> PullRequestException:
    """Request an exception from the window, which is returned, and grant another one."""
    now = factories.now()
    pull = factories.pull_request(acme.session, acme.repositories[0], 7, title="Fix rounding of invoices")
    other = factories.pull_request(acme.session, acme.repositories[0], 12, title="Update the licence of fonts")
    request = factories.exception(
        acme.session,
        window,
        pull,
        acme.web,
        reason="Payments fail; this is the fix",
        requested_by=GRACE,
        requested_at=now - timedelta(minutes=9),
        decision=None,
        decided_by=None,
        decided_at=None,
    )
    granted = {"requested_by": GRACE, "requested_at": now, "decided_by": ADA, "pin_to_head": True}
    factories.exception(acme.session, window, other, acme.web, **granted)
    return request


def _add_rule(acme: Scene) -> ExceptionRule:
    """Add a rule in two levels, and what the request's pull request misses of it."""
    label = {"label": {"name": "hotfix", "setBy": {"teams": ["acme/release-captains"]}}}
    files = {"paths": {"onlyMatching": ["docs/**", "*.md"]}}
    allow = {"all": [{"any": [label, files]}, {"changedLines": {"atMost": 200}}]}
    identities = {"accounts": {}, "teams": {"acme/release-captains": [70, 7]}}
    rule = factories.exception_rule(
        acme.session, acme.organization, name="Documentation and hotfixes", allow=allow, identities=identities
    )
    missed = {
        "outcome": "missed",
        "requires": "the label hotfix, set by @acme/release-captains on this head",
        "found": "It was set by mallory.",
    }
    pull = acme.session.scalars(select(PullRequest).where(PullRequest.number == 7)).one()
    factories.rule_result(acme.session, rule, pull, outcome="missed", conditions=[missed])
    return rule


def addresses(of: Filled) -> Mapping[str, str]:
    """Return the pages by their names, as pictures are named."""
    return {
        "overview": "/",
        "onboarding": "/onboarding",
        "freezes": "/freezes",
        "freezes-ended": "/freezes?show=ended",
        "freeze-moving": f"/freezes/{of.freeze.id}",
        "freeze-failed": f"/freezes/{of.failed.id}",
        "freeze-window": f"/freezes/{of.window.id}",
        "lift": f"/freezes/{of.window.id}/lift",
        "extend": f"/freezes/{of.freeze.id}/extend",
        "override": f"/freezes/{of.window.id}/override",
        "new-freeze": "/freezes/new",
        "exceptions": "/exceptions",
        "decide": f"/exceptions/{of.request.id}/decide",
        "revoke": f"/exceptions/{of.request.id}/revoke",
        "exception-rules": "/exceptions/rules",
        "exception-rule": f"/exceptions/rules/{of.rule.id}",
        "exception-rule-edit": f"/exceptions/rules/{of.rule.id}/edit",
        "freezes-found": "/freezes?show=&q=e",
        "pulls": "/pulls",
        "pulls-of-commit": "/pulls?ref=acme/web%237&ref=acme/web%2312",
        "pull": "/pulls?ref=acme/web%237",
        "request-exception": "/pulls/request?ref=acme/web%237",
        "pull-unknown": "/pulls?ref=acme/web%2399",
        "attention": "/attention",
        "account": "/settings/account",
        "not-found": "/freezes/frz_01k7urvsaoopudarfi5or1b8ab",
    }
