"""Pages of schedules: the list, the form with its preview, what can be done with one, and the import."""

from datetime import date, timedelta

import pytest

from models.freezes import Freeze
from models.schedules import Schedule
from rules.errors import Detail
from tests import factories
from tests.web.people.dashboard.conftest import Enter, Scene, words
from tests.web.people.dashboard.scenes import HOLIDAYS, MONTH_ENDS, WEEKENDS, create_schedule, schedule_id_of
from tests.web.people.forms import Page
from web.dashboard.planning.forms import CHOICES, FIELDS, LABELS, at_fields, body_of, values_of
from web.forms import max_form_bytes
from web.operations import OperationError
from web.problems import problems_of

EVENT = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//acme//freezes//EN
BEGIN:VEVENT
UID:release-1@acme.test
DTSTAMP:20261101T000000Z
DTSTART;VALUE=DATE:{day}
SUMMARY:Release of spring
END:VEVENT
END:VCALENDAR
"""


class TestList:
    def test_schedules_page_shows_terms_in_words_and_the_next_window(self, member: Enter) -> None:
        admin = member("admin")
        create_schedule(admin, **WEEKENDS)
        page = admin.open("/schedules")
        assert "Every Friday, from 18:00 to 08:00 3 days later (UTC)" in words(page)
        assert "The whole organisation Next in" in words(page)

    def test_schedules_page_says_what_schedules_are_for_while_there_is_none(self, member: Enter) -> None:
        assert "Plan a freeze" in member("admin").open("/schedules").links
        viewer = member("viewer").open("/schedules")
        assert "Your role is viewer. Creating schedules needs the role member." in words(viewer)
        assert "Plan a freeze" not in viewer.links

    def test_schedules_page_filters_by_the_address(self, member: Enter) -> None:
        admin = member("admin")
        create_schedule(admin, **WEEKENDS)
        assert "No schedule matches" in words(admin.open("/schedules", name="Nothing"))
        assert "Every Friday" in words(admin.open("/schedules", name="week"))

    def test_full_plan_names_what_it_includes_and_offers_no_form(self, member: Enter, acme: Scene) -> None:
        factories.change_plan(acme.session, acme.organization, "free")
        admin = member("admin")
        for number in range(10):
            factories.schedule(acme.session, acme.organization, name=f"Schedule {number}")
        assert "Your plan includes" in words(admin.open("/schedules"))
        assert "New schedule" not in admin.open("/schedules").links
        assert "Your plan includes no further schedule." in words(admin.open("/schedules/new"))


class TestForm:
    def test_public_text_of_a_schedule_is_stored_changed_and_cleared(self, member: Enter, acme: Scene) -> None:
        admin = member("admin")
        page = create_schedule(admin, **WEEKENDS, public_text="No merging at weekends")
        assert "No merging at weekends" in words(page)
        edit = f"/schedules/{schedule_id_of(page)}/edit"
        assert "Nothing is merged" in words(admin.press(admin.open(edit), "Save", public_text="Nothing is merged"))
        assert "Nothing is merged" in words(admin.press(admin.open(edit), "Save", name="Long weekends"))
        assert "Public text" not in words(admin.press(admin.open(edit), "Save", public_text=""))

    def test_exception_rules_apply_unless_the_form_says_otherwise(self, member: Enter, acme: Scene) -> None:
        admin = member("admin")
        page = create_schedule(admin, **WEEKENDS)
        [schedule] = acme.session.query(Schedule).all()
        assert schedule.exception_rules_allowed
        assert "Exception rules" not in words(page)
        edit = f"/schedules/{schedule_id_of(page)}/edit"
        page = admin.press(admin.open(edit), "Save", exception_rules_allowed="")
        assert "Exception rulesDo not apply" in words(page)
        acme.session.refresh(schedule)
        assert (schedule.exceptions_allowed, schedule.exception_rules_allowed) == (True, False)
        assert "exception_rules_allowed" not in admin.open(edit).form("Save").fields

    def test_form_creates_a_schedule_and_shows_its_windows(self, member: Enter, acme: Scene) -> None:
        page = create_schedule(member("admin"), **MONTH_ENDS)
        assert "The schedule has been created." in page.text
        assert "On the last day of every month, from 12:00 to 12:00 on the next day (Europe/London)" in words(page)
        assert words(page).count("Planned") + words(page).count("In force") >= 3
        [schedule] = acme.session.query(Schedule).all()
        assert schedule.recurrence["by_month_day"] == [-1]

    def test_form_previews_without_scripts_and_keeps_what_was_given(self, member: Enter, acme: Scene) -> None:
        admin = member("admin")
        create_schedule(admin, **WEEKENDS)
        page = admin.press(admin.open("/schedules/new"), "Preview", **MONTH_ENDS)
        assert "Covers 2 watched branches now." in words(page)
        assert page.form("Create schedule").fields["name"] == "Month end"
        assert acme.session.query(Schedule).count() == 1

    def test_form_for_an_open_ended_scope_wants_it_acknowledged(self, member: Enter, acme: Scene) -> None:
        admin = member("admin")
        page = admin.press(admin.open("/schedules/new"), "Create schedule", **WEEKENDS)
        assert (page.status, page.links["Tick that you know what each window freezes."]) == (400, "#acknowledged")
        assert acme.session.query(Schedule).count() == 0
        one = {"scope": "repositories", "repositories": "acme/web"}
        page = admin.press(page, "Create schedule", **one)
        edit = f"/schedules/{schedule_id_of(page)}/edit"
        everything = {"scope": "organization"}
        assert admin.press(admin.open(edit), "Save", **everything).status == 400
        assert admin.press(admin.open(edit), "Save", **everything, acknowledged="on").status == 200
        assert "The schedule has been changed." in admin.press(admin.open(edit), "Save", name="Friday").text

    def test_preview_says_what_is_easily_overlooked(self, member: Enter) -> None:
        admin = member("admin")
        page = admin.press(admin.open("/schedules/new"), "Preview", **HOLIDAYS | {"dates": "2026-01-01"})
        assert "All windows of these terms have ended" in words(page)

    def test_preview_part_says_the_terms_and_what_is_wrong(self, member: Enter) -> None:
        admin = member("admin")
        form = admin.open("/schedules/new").form("Create schedule")
        form.action = "/schedules/preview"
        assert "Every Friday, from 18:00 to 08:00 3 days later." in admin.send(form, **WEEKENDS).text
        wrong = admin.send(form, interval="0")
        assert "Every must be at least 1" in wrong.text
        assert "<html" not in wrong.text

    def test_refused_form_names_its_fields(self, member: Enter) -> None:
        admin = member("admin")
        wrong = {"reason": "short", "timezone": "Mars", "count": "x", "acknowledged": "on"}
        page = admin.press(admin.open("/schedules/new"), "Create schedule", **wrong)
        assert page.status == 400
        assert {"#name", "#reason"} <= set(page.links.values())

    def test_overlap_is_refused_until_it_is_allowed(self, member: Enter) -> None:
        admin = member("admin")
        create_schedule(admin, **WEEKENDS, allow_overlap="")
        again = WEEKENDS | {"name": "Again", "acknowledged": "on"}
        page = admin.press(admin.open("/schedules/new"), "Create schedule", **again)
        assert page.status == 409
        assert "overlap" in words(page)
        assert "The schedule has been created." in create_schedule(admin, **WEEKENDS | {"name": "Again"}).text

    def test_edit_form_shows_the_schedule_and_changes_it(self, member: Enter) -> None:
        admin = member("admin")
        page = create_schedule(admin, **HOLIDAYS)
        form = admin.open(f"/schedules/{schedule_id_of(page)}/edit")
        assert form.form("Save").fields["dates"] == "2027-12-24\n2027-12-31"
        page = admin.press(form, "Save", name="Winter", dates="2027-12-24")
        assert "The schedule has been changed." in page.text
        assert "On 24 December 2027, the whole day (UTC)" in words(page)

    def test_edit_form_keeps_a_thousand_days(self, member: Enter, acme: Scene) -> None:
        admin = member("admin")
        first = date(2027, 1, 1)
        days = [f"{first + timedelta(days=number)}" for number in range(1000)]
        page = create_schedule(admin, **HOLIDAYS | {"dates": "\r\n".join(days)})
        page = admin.press(admin.open(f"/schedules/{schedule_id_of(page)}/edit"), "Save", name="Every day")
        assert "The schedule has been changed." in page.text
        [schedule] = acme.session.query(Schedule).all()
        assert (schedule.name, schedule.recurrence["dates"]) == ("Every day", days)

    def test_edit_form_does_not_replace_a_later_change_unseen(self, member: Enter) -> None:
        admin, other = member("admin"), member("member")
        address = f"/schedules/{schedule_id_of(create_schedule(admin, **HOLIDAYS))}"
        mine, theirs = admin.open(f"{address}/edit"), other.open(f"{address}/edit")
        other.press(theirs, "Save", name="Winter")
        page = admin.press(mine, "Save", name="Christmas")
        assert page.status == 412
        assert "Someone has changed this since you opened the form." in page.text
        assert page.form("Save").fields["name"] == "Christmas"
        assert "Winter" in admin.open(address).title
        assert "The schedule has been changed." in admin.press(page, "Save").text
        assert "Christmas" in admin.open(address).title

    def test_edit_form_is_saved_although_another_window_comes_next(self, member: Enter) -> None:
        admin = member("admin")
        page = create_schedule(admin, **WEEKENDS)
        form = admin.open(f"/schedules/{schedule_id_of(page)}/edit")
        admin.press(page, "Skip")
        assert "The schedule has been changed." in admin.press(form, "Save", name="Winter").text

    def test_edit_that_loses_a_skipped_window_says_so(self, member: Enter) -> None:
        admin = member("admin")
        page = admin.press(create_schedule(admin, **HOLIDAYS), "Skip")
        page = admin.press(admin.open(f"/schedules/{schedule_id_of(page)}/edit"), "Save", dates="2027-12-26")
        assert "Days that were skipped have no window any more." in page.text

    def test_viewer_gets_no_form(self, member: Enter) -> None:
        page = member("viewer").open("/schedules/new")
        assert "Creating and changing schedules needs the role member." in words(page)
        assert "Create schedule" not in page.text


class TestSchedule:
    def test_window_is_skipped_and_planned_again(self, member: Enter) -> None:
        admin = member("admin")
        page = admin.press(create_schedule(admin, **WEEKENDS), "Skip")
        assert "The window will be skipped." in page.text
        page = admin.press(page, "Plan again")
        assert "The window is planned again." in page.text
        assert "Plan again" not in page.text

    def test_schedule_is_started_early_and_ended(self, member: Enter) -> None:
        admin = member("admin")
        day = factories.now() + timedelta(days=30)
        page = create_schedule(admin, **HOLIDAYS | {"dates": f"{day:%Y-%m-%d}"})
        refused = admin.press(page, "Start now")
        assert refused.status == 409
        end = factories.now() + timedelta(hours=3)
        page = admin.press(page, "Start now", ends_at=f"{end:%Y-%m-%dT%H:%M}")
        assert "The window has been started now." in page.text
        page = admin.press(page, "End now")
        assert "The freezes of the schedule have ended." in page.text

    def test_freeze_in_force_goes_on_after_a_change_unless_asked(self, member: Enter, acme: Scene) -> None:
        admin = member("admin")
        page = create_schedule(admin, **WEEKENDS)
        edit = f"/schedules/{schedule_id_of(page)}/edit"
        assert "apply_to_active" not in admin.open(edit).text
        end = factories.now() + timedelta(hours=3)
        page = admin.press(page, "Start now", ends_at=f"{end:%Y-%m-%dT%H:%M}")
        form = admin.open(edit)
        assert "Apply the change to the freeze in force too" in words(form)
        page = admin.press(form, "Save", reason="Another good reason")
        assert "In force" in words(page)
        page = admin.press(admin.open(edit), "Save", reason="Yet another reason", apply_to_active="on")
        assert "In force" in words(page)
        assert [freeze.reason for freeze in acme.session.query(Freeze).where(Freeze.ended_at.is_(None))] == [
            "Yet another reason"
        ]
        page = admin.press(page, "Disable, and end its freeze")
        assert "Windows that it would have" in page.text
        assert "End now" not in page.text

    def test_schedule_is_disabled_enabled_and_deleted(self, member: Enter, acme: Scene) -> None:
        admin = member("admin")
        page = admin.press(create_schedule(admin, **WEEKENDS), "Disable")
        assert "Windows that it would have" in page.text
        page = admin.press(page, "Enable")
        assert "The schedule is enabled" in page.text
        page = admin.press(page, "Delete Weekends")
        assert "The schedule has been deleted." in page.text
        assert "Plan a freeze" in page.links

    def test_viewer_sees_windows_and_no_button(self, member: Enter) -> None:
        page = create_schedule(member("admin"), **WEEKENDS)
        shown = member("viewer").open(f"/schedules/{schedule_id_of(page)}")
        assert [button for form in shown.forms for button in form.buttons if button[0] == "do"] == []
        assert "Changing schedules needs the role member." in words(shown)

    def test_unknown_button_is_refused(self, member: Enter, acme: Scene) -> None:
        admin = member("admin")
        page = create_schedule(admin, **WEEKENDS)
        assert admin.send(page.form("Disable"), do="explode").status_code == 422


class TestFormFields:
    @pytest.mark.parametrize("recurrence", [
        {"frequency": "weekly", "interval": 2, "byDay": ["MO", "FR"], "weekStart": "SU", "until": "2027-01-01"},
        {"frequency": "monthly", "interval": 1, "byDay": ["1MO", "-1FR"], "count": 3},
        {"frequency": "monthly", "interval": 1, "byDay": ["MO", "TU"], "bySetPosition": [-1], "byMonth": [3, 12]},
        {"frequency": "yearly", "interval": 1, "byMonthDay": [24, -1], "byMonth": [12], "exceptDates": ["2027-12-24"]},
        {"frequency": "daily", "interval": 3},
        {"frequency": "once"},
    ])  # fmt: skip
    def test_form_keeps_every_rule_of_a_schedule(self, recurrence: dict[str, object]) -> None:
        terms = {"recurrence": {**recurrence, "startDate": "2026-11-06"}}
        schedule = {
            **terms, "name": "A", "reason": "Because of it", "publicText": None, "timezone": "UTC",
            "window": {"startTime": "18:00", "endTime": "08:00", "days": 3},
            "scope": {"type": "glob", "patterns": ["acme/*"], "branches": ["main"]},
            "exceptionsAllowed": True, "exceptionRulesAllowed": False, "allowOverlap": False, "enabled": True,
        }  # fmt: skip
        shown = {**dict.fromkeys(FIELDS, ""), **values_of(schedule)}
        assert body_of(shown) == schedule

    def test_every_field_has_a_label(self) -> None:
        assert set(FIELDS) - set(CHOICES) <= set(LABELS)

    def test_problems_stand_at_their_field_and_begin_with_its_label(self) -> None:
        details = [
            Detail("/scope/patterns/0", "scope.patterns[0] is too long"),
            Detail("/window/endTime", "must be later"),
            Detail("/reason", "reason is required"),
            Detail("/scope/repositories/0", "this organisation has no repository 'acme/none'"),
            Detail("/scope/repositories/1", "acme/old: main is frozen"),
        ]
        refused = OperationError(422, "validation_failed", "No.", details=details)
        assert problems_of(at_fields(refused), LABELS) == (
            ("patterns", "Patterns is too long"),
            ("end_time", "Ends at must be later"),
            ("reason", "Reason is required"),
            ("repositories", "This organisation has no repository 'acme/none'"),
            ("repositories", "acme/old: main is frozen"),
        )


class TestImport:
    def test_calendar_file_is_imported_after_a_dry_run(self, member: Enter, acme: Scene) -> None:
        admin = member("admin")
        form = admin.open("/import").form("Show what would happen")
        day = factories.now() + timedelta(days=40)
        files = {"file": ("release.ics", EVENT.format(day=f"{day:%Y%m%d}").encode(), "text/calendar")}
        data = {**form.fields, "do": "try"}
        tried = admin.upload(form, data, files)
        assert "Nothing has been changed yet." in words(tried)
        assert "Would be created Release of spring" in words(tried)
        assert acme.session.query(Schedule).count() == 0
        page = admin.press(tried, "Import")
        assert "The calendar has been imported." in page.text
        assert [each.name for each in acme.session.query(Schedule)] == ["Release of spring"]

    @pytest.mark.parametrize("country", ["DE", "germany"])
    def test_holidays_are_imported_after_a_dry_run(self, member: Enter, acme: Scene, country: str) -> None:
        admin = member("admin")
        page = admin.open("/import", **{"from": "holidays"})
        given = {"format": "holidays", "country": country, "together": "on", "do": "try"}
        tried = admin.press(page, "Show what would happen", **given)
        assert "would be created" in words(tried).lower()
        assert "The calendar has been imported." in admin.press(tried, "Import").text

    def test_countries_with_holidays_are_suggested_by_name(self, member: Enter) -> None:
        admin = member("admin")
        page = admin.open("/import", **{"from": "holidays"})
        assert page.form("Show what would happen").kinds["country"]["list"] == "countries"
        [address] = [each for each in page.addresses if each.endswith("/countries")]
        assert "Germany" in admin.open(address).answer.text.split('"')

    @pytest.mark.parametrize("country", ["", "Atlantis"])
    def test_country_without_holidays_is_refused_at_its_field(self, member: Enter, country: str) -> None:
        admin = member("admin")
        page = admin.open("/import")
        given = {"format": "holidays", "country": country, "do": "try"}
        refused = admin.press(page, "Show what would happen", **given)
        assert "Enter a country that has holidays to import, by its name or code." in refused.text
        assert refused.form("Show what would happen").fields["country"] == country

    def test_import_that_would_be_refused_is_not_offered(self, member: Enter) -> None:
        admin = member("admin")
        day = factories.now() + timedelta(days=40)
        create_schedule(admin, **HOLIDAYS | {"dates": f"{day:%Y-%m-%d}", "allow_overlap": ""})
        form = admin.open("/import").form("Show what would happen")
        files = {"file": ("release.ics", EVENT.format(day=f"{day:%Y%m%d}").encode(), "text/calendar")}
        tried = admin.upload(form, {**form.fields, "do": "try", "allow_overlap": ""}, files)
        assert "Prevents the import Release of spring" in words(tried)
        assert "overlaps with 'Holidays' from" in words(tried)
        assert "Let windows overlap, or change those schedules, to import this calendar." in words(tried)

    def test_import_asks_whether_a_freeze_in_force_follows(self, member: Enter, acme: Scene) -> None:
        admin = member("admin")
        day = factories.now() + timedelta(days=40)

        def tried(name: str) -> Page:
            form = admin.open("/import").form("Show what would happen")
            content = EVENT.format(day=f"{day:%Y%m%d}").replace("Release of spring", name).encode()
            files = {"file": ("release.ics", content, "text/calendar")}
            return admin.upload(form, {**form.fields, "do": "try"}, files)

        assert "apply_to_active" not in tried("Release of spring").text
        admin.press(tried("Release of spring"), "Import")
        [schedule] = acme.session.query(Schedule).all()
        end = factories.now() + timedelta(hours=3)
        admin.press(admin.open(f"/schedules/{schedule.id}"), "Start now", ends_at=f"{end:%Y-%m-%dT%H:%M}")
        page = tried("Spring release")
        assert "Its freeze in force goes on, unless you decide otherwise." in words(page)
        admin.press(page, "Import", apply_to_active="on")
        [freeze] = acme.session.query(Freeze).where(Freeze.ended_at.is_(None))
        assert freeze.reason == "Calendar: Spring release"

    def test_import_without_a_file_says_so(self, member: Enter) -> None:
        admin = member("admin")
        page = admin.press(admin.open("/import"), "Show what would happen")
        assert page.status == 400
        assert page.links["Choose the file of a calendar (.ics)."] == "#file"

    def test_import_refuses_a_file_that_is_no_text(self, member: Enter) -> None:
        admin = member("admin")
        form = admin.open("/import").form("Show what would happen")
        page = admin.upload(form, {**form.fields, "do": "try"}, {"file": ("a.ics", b"\xff\xfe\x00", "text/calendar")})
        assert "The file is not text in UTF-8" in page.text

    def test_form_beyond_the_limit_is_refused(self, member: Enter) -> None:
        admin = member("admin")
        form = admin.open("/import").form("Show what would happen")
        answer = admin.client.post(
            "/import", content=b"x" * (max_form_bytes("/import") + 1), headers={"Origin": admin.site}
        )
        assert answer.status_code == 413
        assert admin.send(form, do="try").status_code == 400
