"""What ending a freeze would change."""

from datetime import timedelta
from typing import Any

from models.repositories import WatchedBranch
from tests import factories
from tests.handlers.callers import Tenant

NOTHING = {
    "releasedBranchCount": 0,
    "frozenBranchCount": 0,
    "frozenBranches": [],
    "freezeCount": 0,
    "freezes": [],
}


class TestPreviewLift:
    def test_preview_names_what_stays_frozen_and_why(
        self, acme: Tenant, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        docs = factories.watched(acme.session, acme.organization, "acme/docs")
        freeze = factories.freeze(acme.session, acme.organization, [web, api, docs])
        narrow = factories.freeze(acme.session, acme.organization, [api], reason="One of them")
        wide = factories.freeze(acme.session, acme.organization, [web, api], reason="Two of them")
        ended = factories.freeze(acme.session, acme.organization, ended_at=factories.now(), end_reason="lifted")
        factories.target(acme.session, ended, docs, operation="release", state="released")
        preview = acme.key("freeze:read").get(f"/v1/freezes/{freeze.id}/lift-preview").json()
        assert preview == {
            "releasedBranchCount": 1,
            "frozenBranchCount": 2,
            "frozenBranches": [
                {"branchId": api.id, "repository": "acme/api", "branch": "main"},
                {"branchId": web.id, "repository": "acme/web", "branch": "main"},
            ],
            "freezeCount": 2,
            "freezes": [
                {"freezeId": wide.id, "reason": "Two of them", "branchCount": 2},
                {"freezeId": narrow.id, "reason": "One of them", "branchCount": 1},
            ],
        }
        assert acme.audit() == []

    def test_preview_lists_ten_and_counts_all(self, acme: Tenant) -> None:
        branches = [factories.watched(acme.session, acme.organization, f"acme/r{number}") for number in range(11)]
        freeze = factories.freeze(acme.session, acme.organization, branches)
        for branch in branches:
            factories.freeze(acme.session, acme.organization, [branch])
        preview = acme.key().get(f"/v1/freezes/{freeze.id}/lift-preview").json()
        assert (preview["frozenBranchCount"], len(preview["frozenBranches"])) == (11, 10)
        assert (preview["freezeCount"], len(preview["freezes"])) == (11, 10)

    def test_preview_of_an_ended_freeze_is_empty(self, acme: Tenant, web: WatchedBranch, later: Any) -> None:
        timed = factories.freeze(acme.session, acme.organization, [web], ends_at=factories.now() + timedelta(hours=1))
        factories.freeze(acme.session, acme.organization, [web])
        later(hours=1)
        assert acme.key().get(f"/v1/freezes/{timed.id}/lift-preview").json() == NOTHING
