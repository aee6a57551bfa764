"""Dry runs of imports lock and write nothing: the database would refuse both in a read-only transaction."""

from typing import Any

import pytest
from sqlalchemy.orm import Session

from models.organizations import Organization
from rules.errors import ServiceError
from services.core.unit_of_work import Caller, UnitOfWorkFactory
from services.schedules.import_matching import Import
from services.schedules.imports import import_calendar
from tests import factories
from tests.factories.plans import BUSINESS
from tests.harness.sessions import id_of
from tests.integrations.calendars.vectors import calendar
from tests.services.conftest import ADA

EVERYTHING = {"type": "organization"}
NIGHTLY = "UID:{}\nDTSTART:20260105T{}0000Z\nDTEND:20260105T{}0000Z\nRRULE:FREQ=DAILY\nSUMMARY:{}"


def night(uid: str, begins: int, ends: int, name: str = "Night") -> str:
    return NIGHTLY.format(uid, f"{begins:02}", f"{ends:02}", name)


class Importer:
    """Imports files in the organisation, in transactions of their own."""

    def __init__(self, uow_factory: UnitOfWorkFactory, organization: Organization) -> None:
        self._uow_factory = uow_factory
        self._caller = Caller(id_of(organization), ADA, "dashboard", BUSINESS)

    def __call__(self, *events: str, dry_run: bool, **changes: Any) -> dict[str, Any]:
        """Return the report; a dry run is in a read-only transaction."""
        given = {"remove_missing": True, "timezone": "UTC", **changes}
        wanted = Import("ics", EVERYTHING, calendar(*events), dry_run=dry_run, **given)
        with self._uow_factory.open(self._caller, read_only=dry_run) as uow:
            found = import_calendar(uow, wanted)
            return {**found, "data": [(entry.uid, entry.action, entry.changed) for entry in found["data"]]}


@pytest.fixture
def importer(uow_factory: UnitOfWorkFactory, session: Session, acme: Organization) -> Importer:
    factories.branch(session, factories.repository(session, acme))
    session.commit()
    return Importer(uow_factory, acme)


def test_dry_run_locks_and_writes_nothing(importer: Importer) -> None:
    importer(night("1", 1, 2), night("2", 3, 4), night("3", 5, 6), dry_run=False)
    events = (night("1", 1, 2), night("2", 3, 4, "New name"), night("4", 7, 8))
    rehearsed = importer(*events, dry_run=True)
    real = importer(*events, dry_run=False)
    assert real["data"] == [
        ("3", "removed", []),
        ("1", "unchanged", []),
        ("2", "updated", ["name", "reason"]),
        ("4", "created", []),
    ]
    assert (rehearsed["data"], rehearsed["counts"]) == (real["data"], real["counts"])


@pytest.mark.parametrize("stored", [True, False])
def test_dry_run_names_the_event_for_which_the_import_is_refused(importer: Importer, *, stored: bool) -> None:
    first, second, third = night("1", 1, 3), night("2", 2, 4, "Other"), night("3", 5, 6, "Third")
    if stored:
        importer(first, dry_run=False, allow_overlap=False)
    found = importer(first, second, third, dry_run=True, allow_overlap=False)
    assert [(uid, action) for uid, action, _ in found["data"]] == [
        ("1", "unchanged" if stored else "created"),
        ("2", "refused"),
        ("3", "created"),
    ]
    with pytest.raises(ServiceError) as raised:
        importer(first, second, third, dry_run=False, allow_overlap=False)
    assert raised.value.code == "schedule_overlap"


def test_dry_run_sees_that_a_window_has_moved_out_of_the_way(importer: Importer) -> None:
    importer(night("1", 1, 3), dry_run=False, allow_overlap=False)
    events = (night("1", 5, 6), night("2", 2, 4, "Other"))
    for dry_run in (True, False):
        found = importer(*events, dry_run=dry_run, allow_overlap=False)
        assert [action for _, action, _ in found["data"]] == ["updated", "created"]
