"""Reading exceptions, one or in lists: in which state they are, and whether they let anything merge."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.orm import Session

from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from rules.ids import new_id
from rules.time.instants import format_instant
from tests import factories
from tests.handlers.callers import Tenant
from tests.handlers.exceptions.requests import FrozenPull, ids, requested
from tests.handlers.people import through_pages
from tests.harness.clock import MovableClock


class TestGetException:
    def test_exception_stays_readable_in_every_state(self, case: FrozenPull) -> None:
        over = factories.now() - timedelta(seconds=1)
        became: dict[str, dict[str, Any]] = {
            "denied": {"decision": "denied"},
            "revoked": {"revoked_at": over, "revoked_by": factories.SYSTEM},
            "expired": {"expires_at": over},
        }
        for state, columns in became.items():
            row = case.grant(**columns)
            assert case.acme.key("exception:read").get(f"/v1/exceptions/{row.id}").json()["state"] == state
            row.expired_at = over
            case.session.flush()

    def test_exception_expires_to_the_second_before_that_is_recorded(
        self, case: FrozenPull, clock: MovableClock
    ) -> None:
        end = factories.now() + timedelta(hours=1)
        row = case.grant(expires_at=end)
        key = case.acme.key()
        for at, state, expired_at in (
            (end - timedelta(milliseconds=1), "granted", None),
            (end, "expired", format_instant(end)),
        ):
            clock.at = at
            shown = key.get(f"/v1/exceptions/{row.id}").json()
            assert (shown["state"], shown["expiredAt"]) == (state, expired_at)
        assert case.session.get_one(PullRequestException, row.id, populate_existing=True).expired_at is None

    @pytest.mark.parametrize("granted", [True, False])
    def test_exception_expires_with_its_freeze(self, case: FrozenPull, granted: bool) -> None:
        row = (factories.exception if granted else requested)(case.session, case.freeze, case.pull, case.web)
        key = case.acme.key()
        lifted = key.post(f"/v1/freezes/{case.freeze.id}/lift").json()["endedAt"]
        shown = key.get(f"/v1/exceptions/{row.id}").json()
        assert (shown["state"], shown["expiredAt"], shown["effective"]) == ("expired", lifted, False)


class TestEffect:
    def shown(self, acme: Tenant, row: PullRequestException) -> tuple[bool, str | None]:
        shown = acme.key().get(f"/v1/exceptions/{row.id}").json()
        return shown["effective"], shown["ineffectiveReason"]

    @pytest.fixture
    def granted(self, session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch) -> PullRequestException:
        return factories.exception(session, freeze, pull, web)

    def test_exception_is_effective_once_the_check_is_written(
        self, acme: Tenant, granted: PullRequestException, pull: PullRequest, web: WatchedBranch
    ) -> None:
        assert self.shown(acme, granted) == (False, "not_written")
        check = factories.head_check(acme.session, web, pull.head_sha, "failure")
        assert self.shown(acme, granted) == (False, "not_written")
        check.conclusion = "success"
        acme.session.flush()
        assert self.shown(acme, granted) == (True, None)

    def test_exception_is_ineffective_while_the_shared_head_is_blocked(
        self, case: FrozenPull, granted: PullRequestException
    ) -> None:
        twin = factories.pull_request(case.session, case.repository, 8, head_sha=case.pull.head_sha)
        assert self.shown(case.acme, granted) == (False, "shared_head")
        factories.exception(case.session, case.freeze, twin, case.web)
        factories.head_check(case.session, case.web, case.pull.head_sha, "success")
        assert self.shown(case.acme, granted) == (True, None)

    def test_exception_is_ineffective_for_another_head_base_or_when_closed(
        self, acme: Tenant, granted: PullRequestException, pull: PullRequest, repository: Repository
    ) -> None:
        granted.pin_to_head = True
        pull.head_sha = factories.sha("pushed")
        acme.session.flush()
        assert self.shown(acme, granted) == (False, "head_moved")
        factories.branch(acme.session, repository, "release/1")
        pull.base_branch = "release/1"
        acme.session.flush()
        assert self.shown(acme, granted) == (False, "other_base")
        pull.state = "closed"
        acme.session.flush()
        assert self.shown(acme, granted) == (False, "closed")


class TestListExceptions:
    def test_exceptions_are_listed_newest_first_in_pages(
        self, acme: Tenant, freeze: Freeze, repository: Repository, web: WatchedBranch
    ) -> None:
        pulls = [factories.pull_request(acme.session, repository, number) for number in range(1, 6)]
        made = [
            factories.exception(
                acme.session, freeze, pull, web, created_at=factories.now() + timedelta(seconds=index // 2)
            )
            for index, pull in enumerate(pulls)
        ]
        newest_first = sorted(made, key=lambda row: (row.created_at, row.id), reverse=True)
        seen = through_pages(acme.key(), "/v1/exceptions")
        assert [row["id"] for row in seen] == [row.id for row in newest_first]

    def test_exceptions_are_filtered_by_every_parameter(self, case: FrozenPull) -> None:
        api = factories.branch(case.session, case.acme.repository("api"), "trunk")
        elsewhere = factories.pull_request(
            case.session, case.session.get_one(Repository, api.repository_id), base_branch="trunk"
        )
        wide = factories.freeze(case.session, case.acme.organization, [case.web, api])
        group_id = new_id("exg")
        rows = {
            "granted": case.grant(request_group_id=group_id),
            "pending": requested(case.session, wide, case.pull, case.web, request_group_id=group_id),
            "denied": factories.exception(case.session, wide, elsewhere, api, decision="denied"),
        }
        expected: list[tuple[dict[str, str], set[str]]] = [
            ({"state": "granted"}, {"granted"}),
            ({"state": "pending"}, {"pending"}),
            ({"state": "denied"}, {"denied"}),
            ({"state": "expired"}, set()),
            ({"state": "revoked"}, set()),
            ({"repo": "Acme/Web"}, {"granted", "pending"}),
            ({"repo": api.repository_id}, {"denied"}),
            ({"branchId": api.id}, {"denied"}),
            ({"freezeId": wide.id}, {"pending", "denied"}),
            ({"pullRequestId": case.pull.id}, {"granted", "pending"}),
            ({"requestGroupId": group_id, "state": "granted"}, {"granted"}),
        ]
        names = {row.id: name for name, row in rows.items()}
        for params, found in expected:
            assert {names[row_id] for row_id in ids(case.acme.key().get("/v1/exceptions", **params))} == found
            if "state" not in params:
                shown = {names[row_id] for row_id in ids(case.acme.key().get("/v1/exception-requests", **params))}
                assert shown == found & {"pending"}
