"""Undoing the import of a calendar."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.orm import Session

from tests.handlers.callers import Caller, Tenant, answered, refusal
from tests.handlers.schedules.import_requests import SOON, actions, event, imported, kept, of_file
from tests.handlers.schedules.requests import created

pytestmark = pytest.mark.usefixtures("calendars_read_in_process")
ADDRESS = "/v1/schedules/imports/{}/undo"
UNKNOWN = ADDRESS.format("aud_06aq1m3k0v5t8c2n7d4e9f1ga1")
FIRST = of_file(event("1"), event("2", name="Audit"))
SECOND = of_file(
    event("1", name="Stocktaking", day=SOON + timedelta(days=1)), event("3", name="Move"), removeMissing=True
)
"""Changes the first event of FIRST, deletes the second one and creates a third one."""


def undo(caller: Caller, result: dict[str, Any]) -> dict[str, Any]:
    return answered(caller.post(ADDRESS.format(result["importId"])))


def plan_of(caller: Caller) -> list[dict[str, Any]]:
    """Return the schedules as they are shown, but for when they were changed."""
    found = caller.get("/v1/schedules").json()["data"]
    return [{name: value for name, value in each.items() if name != "updatedAt"} for each in found]


class TestUndoScheduleImport:
    def test_undo_deletes_what_an_import_created(self, member: Caller, session: Session) -> None:
        result = imported(member, FIRST)
        assert undo(member, result)["counts"] == {"deleted": 2, "changedBack": 0, "restored": 0}
        assert kept(session) == []
        assert set(actions(imported(member, FIRST)).values()) == {"created"}

    def test_undo_restores_what_an_import_changed_and_deleted(self, member: Caller, acme: Tenant) -> None:
        imported(member, FIRST)
        before = plan_of(member)
        result = imported(member, SECOND)
        assert actions(result) == {"1": "updated", "2": "removed", "3": "created"}
        undone = undo(member, result)
        assert undone == {"importId": result["importId"], "counts": {"deleted": 1, "changedBack": 1, "restored": 1}}
        assert plan_of(member) == before
        assert acme.audit()[-1] == "schedule.import_undone"
        assert set(actions(imported(member, FIRST)).values()) == {"unchanged"}

    def test_undone_import_can_be_imported_again(self, member: Caller) -> None:
        imported(member, FIRST)
        undo(member, imported(member, SECOND))
        assert actions(imported(member, SECOND)) == {"1": "updated", "2": "removed", "3": "created"}

    @pytest.mark.parametrize("what", ["edited", "deleted", "imported again", "undone"])
    def test_import_is_not_undone_after_later_changes(self, member: Caller, what: str) -> None:
        imported(member, FIRST)
        result = imported(member, SECOND)
        path = f"/v1/schedules/{next(row['scheduleId'] for row in result['data'] if row['uid'] == '1')}"
        if what == "edited":
            member.patch(path, {"reason": "Another good reason"})
        elif what == "deleted":
            member.delete(path)
        elif what == "undone":
            undo(member, result)
        else:
            imported(member, FIRST)
        before = plan_of(member)
        refusal(member.post(ADDRESS.format(result["importId"])), 409, "invalid_state")
        assert plan_of(member) == before

    def test_deleted_schedule_is_restored_beside_its_neighbours(self, member: Caller) -> None:
        imported(member, of_file(event("2", name="Audit"), allowOverlap=False))
        once = {"frequency": "once", "startDate": SOON.isoformat()}
        created(member, recurrence=once, allowOverlap=True)
        before = plan_of(member)
        undo(member, imported(member, of_file(event("3", name="Move"), removeMissing=True)))
        assert plan_of(member) == before

    def test_import_that_changed_nothing_cannot_be_undone(self, member: Caller) -> None:
        assert imported(member, {**FIRST, "dryRun": True})["importId"] is None
        imported(member, FIRST)
        assert imported(member, FIRST)["importId"] is None
        refusal(member.post(UNKNOWN), 404, "import_not_found")
