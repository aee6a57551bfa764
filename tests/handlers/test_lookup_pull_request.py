"""`GET /v1/pulls/lookup` on a frozen pull request: why it is blocked, until when, and the requested exceptions."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.orm import Session

from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.pull_requests import PullRequest
from models.repositories import WatchedBranch
from rules.time.instants import format_instant
from tests import factories
from tests.handlers.callers import Tenant, answered

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Proposed:
    """acme/web#7, which is looked up."""

    acme: Tenant
    web: WatchedBranch
    pull: PullRequest

    @property
    def session(self) -> Session:
        return self.acme.session

    def look_up(self, ref: str = "7") -> dict[str, Any]:
        return answered(self.acme.key("freeze:read").get("/v1/pulls/lookup", ref=ref))

    def freeze(self, **columns: Any) -> Freeze:
        return factories.freeze(self.session, self.acme.organization, [self.web], **columns)

    def exempt(self, freeze: Freeze, **columns: Any) -> PullRequestException:
        return factories.exception(self.session, freeze, self.pull, self.web, **columns)


@pytest.fixture
def proposed(acme: Tenant, web: WatchedBranch, pull: PullRequest) -> Proposed:
    return Proposed(acme, web, pull)


class TestVerdictExplanation:
    def test_explanation_names_each_freeze_with_its_exception(self, proposed: Proposed, freeze: Freeze) -> None:
        later = proposed.freeze(reason="Audit week", exceptions_allowed=False)
        made = proposed.exempt(freeze)
        shown = proposed.look_up()
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
        self, proposed: Proposed, freeze: Freeze, columns: dict[str, Any], state: str
    ) -> None:
        made = proposed.exempt(freeze, **columns)
        shown = proposed.look_up()
        assert [(each["id"], each["state"], each["freezeId"]) for each in shown["exceptions"]] == [
            (made.id, state, freeze.id)
        ]
        assert (shown["verdict"], shown["exceptionIds"]) == ("blocked", [])

    def test_exception_pinned_to_another_head_is_shown_and_blocks(self, proposed: Proposed, freeze: Freeze) -> None:
        proposed.exempt(freeze, pin_to_head=True, head_sha="0" * 40)
        shown = proposed.look_up()
        assert (shown["verdict"], shown["exceptionIds"]) == ("blocked", [])
        assert [each["headSha"] for each in shown["exceptions"]] == ["0" * 40]

    def test_exception_of_an_ended_freeze_is_not_shown(self, proposed: Proposed, freeze: Freeze) -> None:
        over = proposed.freeze(ended_at=factories.now())
        proposed.exempt(over)
        assert proposed.look_up()["exceptions"] == []


class TestNextChange:
    def test_exception_that_outlives_its_freeze_changes_nothing(self, proposed: Proposed) -> None:
        end = factories.now() + HOUR
        short = proposed.freeze(ends_at=end)
        proposed.exempt(short, expires_at=end + HOUR)
        shown = proposed.look_up()
        assert (shown["verdict"], shown["nextChangeAt"]) == ("allowed", None)
        assert (shown["frozen"], shown["frozenUntil"]) == (True, format_instant(end))
        assert shown["check"]["title"] == "Allowed by an exception until the freeze ends"

    def test_exception_allows_until_a_window_follows(self, proposed: Proposed) -> None:
        end = factories.now() + HOUR
        short = proposed.freeze(ends_at=end)
        proposed.exempt(short, expires_at=end + HOUR)
        following = factories.schedule(proposed.session, proposed.acme.organization)
        factories.occurrence(proposed.session, following, starts_at=end, ends_at=end + 2 * HOUR)
        shown = proposed.look_up()
        assert (shown["frozenUntil"], shown["nextChangeAt"]) == (format_instant(end + 2 * HOUR), format_instant(end))
        assert shown["check"]["title"] == f"Allowed by an exception until {end:%Y-%m-%d %H:%M} UTC"

    def test_blocked_pull_request_stays_blocked_while_planned_windows_follow(self, proposed: Proposed) -> None:
        end = factories.now() + HOUR
        proposed.freeze(ends_at=end)
        schedule = factories.schedule(proposed.session, proposed.acme.organization)
        for start in (end, end + HOUR, end + 3 * HOUR):
            factories.occurrence(proposed.session, schedule, starts_at=start)
        factories.occurrence(proposed.session, schedule, starts_at=end + 2 * HOUR, skip_reason="asked")
        shown = proposed.look_up()
        assert shown["nextChangeAt"] == format_instant(end + 2 * HOUR)
        until = f"{end + 2 * HOUR:%Y-%m-%d %H:%M} UTC"
        assert shown["check"]["title"] == f"Merging into main is frozen until {until}"
        assert f"It stays frozen until {until}" in shown["check"]["summary"]

    def test_unfrozen_pull_request_has_no_next_change(self, proposed: Proposed) -> None:
        shown = proposed.look_up()
        assert (shown["verdict"], shown["nextChangeAt"], shown["freezes"]) == ("allowed", None, [])
        assert (shown["frozen"], shown["frozenUntil"]) == (False, None)


class TestExplainedCheck:
    def test_explained_check_shows_conclusion_and_time_of_the_write(self, proposed: Proposed, freeze: Freeze) -> None:
        row = factories.head_check(proposed.session, proposed.web, proposed.pull.head_sha, "failure")
        check = proposed.look_up()["check"]
        assert (check["state"], check["conclusion"], check["name"]) == ("written", "failure", "change-freeze/main")
        assert check["writtenAt"] == format_instant(row.written_at)

    def test_unwritten_check_has_no_conclusion(self, proposed: Proposed) -> None:
        factories.head_check(
            proposed.session, proposed.web, proposed.pull.head_sha, "failure", evaluation=0, unconfirmed=True
        )
        check = proposed.look_up()["check"]
        assert (check["state"], check["conclusion"], check["title"]) == (
            "pending",
            None,
            "No freeze covers this branch",
        )

    def test_closed_pull_request_has_no_check_text_and_no_next_change(self, proposed: Proposed, freeze: Freeze) -> None:
        proposed.pull.state, freeze.ends_at = "closed", factories.now() + timedelta(hours=1)
        proposed.session.flush()
        shown = proposed.look_up()
        assert (shown["check"]["title"], shown["check"]["summary"]) == (None, None)
        assert shown["nextChangeAt"] is None


class TestUnconfirmedHeads:
    def test_head_is_not_blocked_while_its_failure_is_unconfirmed(self, proposed: Proposed, freeze: Freeze) -> None:
        factories.branch_enforcement(proposed.session, proposed.web)
        row = factories.head_check(proposed.session, proposed.web, proposed.pull.head_sha, "failure", unconfirmed=True)
        for unconfirmed, blocking, state in ((True, "not_blocked", "pending"), (False, "blocked", "written")):
            row.unconfirmed = unconfirmed
            proposed.session.flush()
            shown = proposed.look_up()
            assert (shown["verdict"], shown["blocking"]["state"]) == ("blocked", blocking)
            assert shown["check"]["state"] == state

    def test_unconfirmed_success_is_not_shown_as_a_written_failure(self, proposed: Proposed, freeze: Freeze) -> None:
        unknown = {"evaluation": 0, "unconfirmed": True}
        factories.head_check(proposed.session, proposed.web, proposed.pull.head_sha, "failure", **unknown)
        shown = proposed.look_up()
        assert shown["verdict"] == "blocked"
        found = {name: shown["check"][name] for name in ("state", "conclusion", "writtenAt")}
        assert found == {"state": "pending", "conclusion": None, "writtenAt": None}


def test_list_pull_requests_explains_like_the_lookup(proposed: Proposed, freeze: Freeze) -> None:
    proposed.exempt(freeze, expires_at=factories.now() + HOUR)
    [listed] = proposed.acme.key("freeze:read").get("/v1/repos/acme%2Fweb/pulls", verdict="allowed").json()["data"]
    assert listed == proposed.look_up()
