"""Importing a calendar again while windows of its schedules are in force."""

from datetime import timedelta
from typing import Any

import pytest

from models.repositories import WatchedBranch
from tests.handlers.callers import Caller, Tenant
from tests.handlers.schedules.import_requests import SOON, event, imported, of_file, only
from tests.handlers.schedules.requests import running

pytestmark = pytest.mark.usefixtures("calendars_read_in_process")
MOVED = of_file(event("1", day=SOON + timedelta(days=1)))
RENAMED = of_file(event("1", name="Stocktaking"))
OTHER = of_file(event("2", name="Audit"), removeMissing=True)


@pytest.fixture
def freeze(acme: Tenant, member: Caller, web: WatchedBranch) -> str:
    """Return the freeze in force of an imported schedule."""
    made = only(imported(member, of_file(event("1"))))
    assert made["activeFreeze"] is None
    return running(acme.session, acme, web, made["scheduleId"])


def reported(shown: dict[str, Any]) -> str | None:
    [found] = [row["activeFreeze"] for row in shown["data"] if row["uid"] == "1"]
    return None if found is None else str(found["id"])


def in_force(member: Caller) -> list[str]:
    found = member.get("/v1/freezes", state="in_force").json()["data"]
    return [each["id"] for each in found]


class TestImportsDuringWindows:
    @pytest.mark.parametrize("body", [MOVED, RENAMED, OTHER])
    def test_import_names_the_freeze_that_goes_on(self, member: Caller, freeze: str, body: dict[str, Any]) -> None:
        assert reported(imported(member, {**body, "dryRun": True})) == freeze
        assert reported(imported(member, body)) == freeze
        assert in_force(member) == [freeze]

    @pytest.mark.parametrize("body", [MOVED, OTHER])
    def test_freeze_ends_with_its_window_on_request(self, member: Caller, freeze: str, body: dict[str, Any]) -> None:
        follow = {**body, "applyToActive": True}
        assert reported(imported(member, {**follow, "dryRun": True})) == freeze
        assert in_force(member) == [freeze]
        assert reported(imported(member, follow)) is None
        assert in_force(member) == []

    def test_freeze_follows_a_new_reason_on_request(self, member: Caller, freeze: str) -> None:
        before = member.get(f"/v1/freezes/{freeze}").json()
        followed = reported(imported(member, {**RENAMED, "applyToActive": True}))
        assert in_force(member) == [followed] != [freeze]
        shown = member.get(f"/v1/freezes/{followed}").json()
        assert (shown["reason"], shown["endsAt"]) == ("Calendar: Stocktaking", before["endsAt"])
