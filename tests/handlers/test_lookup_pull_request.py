"""`GET /v1/pulls/lookup` on a frozen pull request: why it is blocked, until when, and the requested exceptions."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.orm import Session

from models.freezes import Freeze
from models.pull_requests import PullRequest
from models.repositories import WatchedBranch
from tests import factories
from tests.handlers.callers import Tenant

HOUR = timedelta(hours=1)
Shown = Callable[..., dict[str, Any]]


def reported(instant: datetime) -> str:
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.fixture
def look_up(acme: Tenant) -> Shown:
    def ask(ref: str = "7") -> dict[str, Any]:
        answer = acme.key("freeze:read").get("/v1/pulls/lookup", ref=ref)
        assert answer.status_code == 200, answer.text
        shown: dict[str, Any] = answer.json()
        return shown

    return ask


class TestVerdictExplanation:
    def test_explanation_names_each_freeze_with_its_exception(
        self, acme: Tenant, web: WatchedBranch, pull: PullRequest, freeze: Freeze, look_up: Shown
    ) -> None:
        later = factories.freeze(acme.session, acme.organization, [web], reason="Audit week", exceptions_allowed=False)
        made = factories.exception(acme.session, freeze, pull, web)
        shown = look_up()
        assert [(each["id"], each["exceptionId"], each["exceptionsAllowed"]) for each in shown["freezes"]] == [
            (freeze.id, made.id, True),
            (later.id, None, False),
        ]
        assert (shown["verdict"], shown["exceptionIds"]) == ("blocked", [made.id])
        assert "Audit week" in shown["check"]["summary"]

    @pytest.mark.parametrize(
        ("columns", "state"),
        [
            pytest.param({"decision": None, "decided_at": None, "decided_by": None}, "pending", id="a request"),
            pytest.param({"decision": "denied"}, "denied", id="a denial"),
            pytest.param({"revoked_at": factories.now(), "revoked_by": factories.SYSTEM}, "revoked", id="revoked"),
            pytest.param({"expires_at": factories.now() - HOUR}, "expired", id="expired, not recorded"),
        ],
    )
    def test_ineffective_exception_is_shown_and_blocks(
        self,
        session: Session,
        web: WatchedBranch,
        pull: PullRequest,
        freeze: Freeze,
        look_up: Shown,
        columns: dict[str, Any],
        state: str,
    ) -> None:
        made = factories.exception(session, freeze, pull, web, **columns)
        shown = look_up()
        assert [(each["id"], each["state"], each["freezeId"]) for each in shown["exceptions"]] == [
            (made.id, state, freeze.id)
        ]
        assert (shown["verdict"], shown["exceptionIds"]) == ("blocked", [])

    def test_exception_pinned_to_another_head_is_shown_and_blocks(
        self, session: Session, web: WatchedBranch, pull: PullRequest, freeze: Freeze, look_up: Shown
    ) -> None:
        factories.exception(session, freeze, pull, web, pin_to_head=True, head_sha="0" * 40)
        shown = look_up()
        assert (shown["verdict"], shown["exceptionIds"]) == ("blocked", [])
        assert [each["headSha"] for each in shown["exceptions"]] == ["0" * 40]

    def test_exception_of_an_ended_freeze_is_not_shown(
        self, acme: Tenant, web: WatchedBranch, pull: PullRequest, freeze: Freeze, look_up: Shown
    ) -> None:
        over = factories.freeze(acme.session, acme.organization, [web], ended_at=factories.now())
        factories.exception(acme.session, over, pull, web)
        assert look_up()["exceptions"] == []


class TestNextChange:
    def test_exception_that_outlives_its_freeze_changes_nothing(
        self, acme: Tenant, web: WatchedBranch, pull: PullRequest, look_up: Shown
    ) -> None:
        end = factories.now() + HOUR
        short = factories.freeze(acme.session, acme.organization, [web], ends_at=end)
        factories.exception(acme.session, short, pull, web, expires_at=end + HOUR)
        shown = look_up()
        assert (shown["verdict"], shown["nextChangeAt"]) == ("allowed", None)
        assert (shown["frozen"], shown["frozenUntil"]) == (True, reported(end))
        assert shown["check"]["title"] == "Allowed by an exception until the freeze ends"

    def test_exception_allows_until_a_window_follows(
        self, acme: Tenant, web: WatchedBranch, pull: PullRequest, look_up: Shown
    ) -> None:
        end = factories.now() + HOUR
        short = factories.freeze(acme.session, acme.organization, [web], ends_at=end)
        factories.exception(acme.session, short, pull, web, expires_at=end + HOUR)
        following = factories.schedule(acme.session, acme.organization)
        factories.occurrence(acme.session, following, starts_at=end, ends_at=end + 2 * HOUR)
        shown = look_up()
        assert (shown["frozenUntil"], shown["nextChangeAt"]) == (reported(end + 2 * HOUR), reported(end))
        assert shown["check"]["title"] == f"Allowed by an exception until {end:%Y-%m-%d %H:%M} UTC"

    def test_blocked_pull_request_stays_blocked_while_planned_windows_follow(
        self, acme: Tenant, web: WatchedBranch, pull: PullRequest, look_up: Shown
    ) -> None:
        end = factories.now() + HOUR
        factories.freeze(acme.session, acme.organization, [web], ends_at=end)
        schedule = factories.schedule(acme.session, acme.organization)
        for start in (end, end + HOUR, end + 3 * HOUR):
            factories.occurrence(acme.session, schedule, starts_at=start)
        factories.occurrence(acme.session, schedule, starts_at=end + 2 * HOUR, skip_reason="asked")
        shown = look_up()
        assert shown["nextChangeAt"] == reported(end + 2 * HOUR)
        until = f"{end + 2 * HOUR:%Y-%m-%d %H:%M} UTC"
        assert shown["check"]["title"] == f"Merging into main is frozen until {until}"
        assert f"It stays frozen until {until}" in shown["check"]["summary"]

    def test_unfrozen_pull_request_has_no_next_change(self, pull: PullRequest, look_up: Shown) -> None:
        shown = look_up()
        assert (shown["verdict"], shown["nextChangeAt"], shown["freezes"]) == ("allowed", None, [])
        assert (shown["frozen"], shown["frozenUntil"]) == (False, None)


class TestExplainedCheck:
    def test_explained_check_shows_conclusion_and_time_of_the_write(
        self, session: Session, web: WatchedBranch, pull: PullRequest, freeze: Freeze, look_up: Shown
    ) -> None:
        row = factories.head_check(session, web, pull.head_sha, "failure")
        check = look_up()["check"]
        assert (check["state"], check["conclusion"], check["name"]) == ("written", "failure", "change-freeze/main")
        assert check["writtenAt"] == reported(row.written_at)

    def test_unwritten_check_has_no_conclusion(
        self, session: Session, web: WatchedBranch, pull: PullRequest, look_up: Shown
    ) -> None:
        factories.head_check(session, web, pull.head_sha, "failure", evaluation=0, unconfirmed=True)
        check = look_up()["check"]
        assert (check["state"], check["conclusion"], check["title"]) == (
            "pending",
            None,
            "No freeze covers this branch",
        )

    def test_closed_pull_request_has_no_check_text_and_no_next_change(
        self, session: Session, web: WatchedBranch, pull: PullRequest, freeze: Freeze, look_up: Shown
    ) -> None:
        pull.state, freeze.ends_at = "closed", factories.now() + timedelta(hours=1)
        session.flush()
        shown = look_up()
        assert (shown["check"]["title"], shown["check"]["summary"]) == (None, None)
        assert shown["nextChangeAt"] is None


def test_list_pull_requests_explains_like_the_lookup(
    acme: Tenant, web: WatchedBranch, pull: PullRequest, freeze: Freeze, look_up: Shown
) -> None:
    factories.exception(acme.session, freeze, pull, web, expires_at=factories.now() + HOUR)
    [listed] = acme.key("freeze:read").get("/v1/repos/acme%2Fweb/pulls", verdict="allowed").json()["data"]
    assert listed == look_up()
