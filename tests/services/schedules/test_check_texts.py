"""Which branches become due when planned windows change: those whose checks name a time that may change."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, text

from models.repositories import Repository, WatchedBranch
from services.schedules import skips
from services.schedules.import_matching import Import
from services.schedules.imports import import_calendar
from services.schedules.later_occurrences import occurrence_id
from tests import factories
from tests.harness.wakeups import RecordedWakeups
from tests.services.schedules.conftest import ScheduleFixture, utc

NOW = "2026-11-21 12:00"
EVENING = {"start_time": "18:00", "end_time": "20:00"}
LATER = {"start_time": "19:00", "end_time": "20:00"}
API = {"type": "repositories", "repositories": ["acme/api"]}
INVENTORY = "BEGIN:VEVENT\r\nUID:1\r\nSUMMARY:Inventory\r\nDTSTART;VALUE=DATE:20261224\r\nEND:VEVENT\r\n"
HOLIDAYS = f"BEGIN:VCALENDAR\r\n{INVENTORY}END:VCALENDAR\r\n"
NAMES_OF_DUE = """
    SELECT r.name FROM checks c JOIN repositories r ON r.id = c.repository_id WHERE due_at IS NOT NULL
"""


class Texts:
    """An organisation whose branch is frozen until 18:00, with a schedule that continues until 20:00."""

    def __init__(self, schedules: ScheduleFixture, wakeups: RecordedWakeups) -> None:
        self.schedules, self.session, self.wakeups = schedules, schedules.session, wakeups
        self.web = self.session.scalars(select(WatchedBranch)).one()
        factories.pull_request(self.session, self.session.get_one(Repository, self.web.repository_id))
        schedules.at(NOW)
        self.evenings = schedules.create(timezone="UTC", window=EVENING)
        self.freeze_until("2026-11-21 18:00")

    def freeze_until(self, end: str | None, branch: WatchedBranch | None = None) -> None:
        given = {"started_at": utc("2026-11-21 09:00"), "ends_at": None if end is None else utc(end)}
        factories.freeze(self.session, self.schedules.organization, [branch or self.web], **given)
        self.session.commit()

    def due_after(self, change: Callable[[], object]) -> set[str]:
        """Return the names of the branches that a change makes due."""
        self.session.execute(text("UPDATE checks SET due_at = NULL"))
        self.session.commit()
        self.wakeups.sent.clear()
        change()
        due = set(self.session.scalars(text(NAMES_OF_DUE)))
        self.session.rollback()
        assert ("reconcile" in self.wakeups.sent) == bool(due)
        return due

    def first(self) -> str:
        return occurrence_id(self.evenings, utc("2026-11-21 18:00"))

    def unskip(self) -> None:
        with self.schedules.uow_factory.open(self.schedules.caller) as uow:
            skips.unskip(uow, self.evenings, self.first())


@pytest.fixture
def texts(schedules: ScheduleFixture, wakeups: RecordedWakeups) -> Texts:
    return Texts(schedules, wakeups)


class TestDue:
    @pytest.mark.parametrize(
        "changes",
        [
            {"window": LATER},
            {"window": {**EVENING, "end_time": "21:00"}},
            {"enabled": False},
            {"scope": API},
            {"recurrence": {"frequency": "daily", "start_date": "2026-11-22"}},
        ],
        ids=["start", "end", "disabled", "scope", "recurrence"],
    )
    def test_edit_of_a_following_window_makes_its_branches_due(self, texts: Texts, changes: dict[str, Any]) -> None:
        factories.watched(texts.session, texts.schedules.organization, "acme/api")
        texts.session.commit()
        assert texts.due_after(lambda: texts.schedules.update(texts.evenings, **changes)) == {"web"}

    def test_skip_or_deletion_of_a_following_window_makes_its_branches_due(self, texts: Texts) -> None:
        schedules = texts.schedules
        assert texts.due_after(lambda: schedules.skip(texts.evenings, texts.first())) == {"web"}
        assert texts.due_after(texts.unskip) == {"web"}
        assert texts.due_after(lambda: schedules.skip_next(texts.evenings)) == {"web"}
        assert texts.due_after(texts.unskip) == {"web"}
        assert texts.due_after(lambda: schedules.delete(texts.evenings, end_active=True)) == {"web"}

    def test_new_schedule_whose_window_follows_makes_its_branches_due(self, texts: Texts) -> None:
        def create() -> None:
            texts.schedules.create(timezone="UTC", window={"start_time": "20:00", "end_time": "22:00"})

        assert texts.due_after(create) == {"web"}

    def test_import_makes_branches_due_that_are_frozen_until_a_time(self, texts: Texts) -> None:
        def load(*, dry_run: bool) -> None:
            with texts.schedules.uow_factory.open(texts.schedules.caller) as uow:
                import_calendar(uow, Import("ics", {"type": "organization"}, content=HOLIDAYS, dry_run=dry_run))

        assert texts.due_after(lambda: load(dry_run=True)) == set()
        assert texts.due_after(lambda: load(dry_run=False)) == {"web"}
        assert texts.due_after(lambda: load(dry_run=False)) == set()


class TestNotDue:
    def test_change_without_other_windows_makes_nothing_due(self, texts: Texts) -> None:
        schedules = texts.schedules
        assert (
            texts.due_after(lambda: schedules.update(texts.evenings, name="Late", reason="Inventory of all")) == set()
        )
        later = occurrence_id(texts.evenings, utc("2026-11-22 18:00"))
        assert texts.due_after(lambda: schedules.skip(texts.evenings, later)) == set()
        far = occurrence_id(texts.evenings, utc("2027-11-22 18:00"))
        assert texts.due_after(lambda: schedules.skip(texts.evenings, far)) == set()

    def test_window_that_begins_after_the_branches_are_free_makes_nothing_due(self, texts: Texts) -> None:
        night = {"start_time": "22:00", "end_time": "23:00"}
        made = texts.schedules.create(timezone="UTC", window=night)
        assert texts.due_after(lambda: texts.schedules.update(made, window={**night, "end_time": "23:30"})) == set()

    @pytest.mark.parametrize("end", [None, "2026-11-21 11:00"], ids=["without an end", "ended"])
    def test_branch_whose_check_names_no_time_is_not_due(self, texts: Texts, end: str | None) -> None:
        texts.session.execute(text("DELETE FROM freeze_targets"))
        texts.freeze_until(end)
        assert texts.due_after(lambda: texts.schedules.update(texts.evenings, window=LATER)) == set()

    def test_branch_without_an_open_pull_request_is_not_due(self, texts: Texts) -> None:
        api = factories.watched(texts.session, texts.schedules.organization, "acme/api")
        texts.freeze_until("2026-11-21 18:00", api)
        assert texts.due_after(lambda: texts.schedules.update(texts.evenings, window=LATER)) == {"web"}
        texts.session.execute(text("UPDATE pull_requests SET state = 'closed'"))
        assert texts.due_after(lambda: texts.schedules.update(texts.evenings, window=EVENING)) == set()

    def test_branch_outside_of_the_scope_is_not_due(self, texts: Texts) -> None:
        api = factories.watched(texts.session, texts.schedules.organization, "acme/api")
        factories.pull_request(texts.session, texts.session.get_one(Repository, api.repository_id))
        texts.freeze_until("2026-11-21 18:00", api)
        made = texts.schedules.create(scope=API, timezone="UTC", window=EVENING, allow_overlap=True)
        assert texts.due_after(lambda: texts.schedules.update(made, window=LATER)) == {"api"}

    def test_windows_without_a_freeze_make_nothing_due(self, texts: Texts) -> None:
        texts.session.execute(text("UPDATE freezes SET ended_at = :at"), {"at": utc(NOW) - timedelta(hours=1)})
        assert texts.due_after(lambda: texts.schedules.delete(texts.evenings)) == set()
