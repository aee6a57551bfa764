"""`/freezes/new` plans as well: from … to …, once or again and again, of what was used last or is chosen."""

import pytest
from sqlalchemy import select

from models.freezes import Freeze
from models.schedules import Schedule
from tests import factories
from tests.web.people.dashboard.conftest import Enter, Scene, words
from tests.web.people.forms import Page, Person

REASON = "No release team at the weekend"
FRIDAY, MONDAY = "2099-01-02T18:00", "2099-01-05T08:00"


def press(person: Person, button: str, **fields: str) -> Page:
    """Show what the fields cover, and press a button."""
    page = person.press(person.open("/freezes/new"), "Show what it covers", **fields)
    return person.press(page, button, **fields)


def planned(acme: Scene) -> list[Schedule]:
    return list(acme.session.scalars(select(Schedule)))


class TestDefaults:
    def test_form_offers_a_branch_at_first(self, member: Enter) -> None:
        form = member("member").open("/freezes/new").form("Start the freeze")
        shown = {name: form.fields[name] for name in ("scope", "repository", "branch")}
        assert shown == {"scope": "branch", "repository": "acme/api", "branch": "main"}

    def test_form_offers_what_the_reader_froze_last(self, member: Enter, acme: Scene) -> None:
        person = member("member")
        press(person, "Start the freeze", scope="branch", repository="acme/web", branch="main", reason=REASON)
        others = {"scope": {"type": "repositories", "repositories": ["acme/api"]}, "started_at": factories.now()}
        factories.freeze(acme.session, acme.organization, [acme.api], **others)
        fields = person.open("/freezes/new").form("Start the freeze").fields
        assert (fields["scope"], fields["repository"]) == ("branch", "acme/web")

    def test_form_takes_times_and_repetition_from_the_address(self, member: Enter) -> None:
        page = member("member").open("/freezes/new", **{"from": "2099-01-02", "to": MONDAY, "repeats": "weekly"})
        fields = page.form("Plan the freeze").fields
        assert [fields[name] for name in ("starts_at", "ends_at", "repeats")] == ["2099-01-02T00:00", MONDAY, "weekly"]

    def test_address_with_an_unreadable_time_shows_the_form(self, member: Enter) -> None:
        page = member("member").open("/freezes/new", **{"from": "soon", "repeats": "hourly"})
        assert page.form("Start the freeze").fields["starts_at"] == ""


class TestQuickEnds:
    @pytest.mark.parametrize(
        ("button", "end"),
        [("4 h", "2099-01-02T22:00"), ("Tomorrow 8:00", "2099-01-03T08:00"), ("Monday 8:00", "2099-01-05T08:00")],
    )
    def test_button_fills_in_the_end_counted_from_the_start(self, member: Enter, button: str, end: str) -> None:
        person = member("member")
        page = person.press(person.open("/freezes/new"), button, starts_at=FRIDAY, reason=REASON, zone="Europe/Berlin")
        fields = page.form("Plan the freeze").fields
        assert (fields["ends_at"], fields["reason"], fields["zone"]) == (end, REASON, "Europe/Berlin")

    def test_monday_of_a_monday_is_the_next_one(self, member: Enter) -> None:
        person = member("member")
        page = person.press(person.open("/freezes/new"), "Monday 8:00", starts_at="2099-01-05T07:00")
        assert page.form("Plan the freeze").fields["ends_at"] == "2099-01-12T08:00"


class TestPlanning:
    def test_freeze_that_begins_later_is_planned_once(self, member: Enter, acme: Scene) -> None:
        fields = {"starts_at": FRIDAY, "ends_at": MONDAY, "zone": "Europe/Berlin", "reason": REASON}
        page = press(member("member"), "Plan the freeze", **fields)
        assert "The schedule has been created." in page.text
        [schedule] = planned(acme)
        assert (schedule.name, schedule.timezone, schedule.recurrence["frequency"]) == (REASON, "Europe/Berlin", "once")
        assert acme.session.scalars(select(Freeze)).all() == []

    @pytest.mark.parametrize(
        ("repeats", "sentence"),
        [
            ("weekly", "Every Friday, from 18:00 to 08:00 3 days later (UTC)"),
            ("monthly", "On the 2nd of every month, from 18:00 to 08:00 3 days later (UTC)"),
        ],
    )
    def test_freeze_that_repeats_says_when_before_it_is_planned(
        self, member: Enter, acme: Scene, repeats: str, sentence: str
    ) -> None:
        person = member("member")
        fields = {"starts_at": FRIDAY, "ends_at": MONDAY, "zone": "UTC", "repeats": repeats, "reason": REASON}
        shown = person.press(person.open("/freezes/new"), "Show what it covers", **fields)
        assert sentence in words(shown)
        assert sentence in words(person.press(shown, "Plan the freeze", **fields))
        assert [schedule.recurrence["frequency"] for schedule in planned(acme)] == [repeats]

    def test_plan_for_everything_needs_its_count_typed(self, member: Enter, acme: Scene) -> None:
        person = member("member")
        fields = {"scope": "organization", "starts_at": FRIDAY, "ends_at": MONDAY, "reason": REASON}
        page = press(person, "Plan the freeze", **fields)
        assert "Type 2, the number of branches" in page.text
        assert planned(acme) == []
        person.press(page, "Plan the freeze", confirmed="2")
        assert len(planned(acme)) == 1

    def test_times_that_are_wrong_lead_to_their_field(self, member: Enter, acme: Scene) -> None:
        cases: list[tuple[dict[str, str], str]] = [
            ({"starts_at": FRIDAY}, "#ends_at"),
            ({"repeats": "weekly"}, "#starts_at"),
            ({"starts_at": FRIDAY, "ends_at": FRIDAY}, "#ends_at"),
            ({"starts_at": "2020-01-01T00:00", "ends_at": MONDAY}, "#starts_at"),
            ({"starts_at": "then", "ends_at": MONDAY}, "#starts_at"),
            ({"starts_at": FRIDAY, "ends_at": MONDAY, "repeats": "weekly", "until": "x"}, "#until"),
        ]
        person = member("member")
        for fields, field in cases:
            page = press(person, "Plan the freeze", reason=REASON, **fields)
            assert 400 <= page.status < 500
            assert field in page.links.values()
            assert page.form("Plan the freeze").fields["reason"] == REASON
            assert planned(acme) == []

    def test_plan_beyond_the_limit_keeps_the_form(self, member: Enter, acme: Scene) -> None:
        factories.change_plan(acme.session, acme.organization, "free")
        for number in range(3):
            factories.schedule(acme.session, acme.organization, name=f"Schedule {number}")
        page = press(member("member"), "Plan the freeze", starts_at=FRIDAY, ends_at=MONDAY, reason=REASON)
        assert page.status == 403
        assert page.form("Plan the freeze").fields["reason"] == REASON


class TestScope:
    def test_freeze_starts_only_with_the_scope_that_was_shown(self, member: Enter, acme: Scene) -> None:
        person = member("member")
        fields = {"scope": "branch", "repository": "acme/web", "branch": "main", "reason": REASON}
        page = person.press(person.open("/freezes/new"), "Start the freeze", **fields)
        assert "Check below what the freeze covers now" in page.text

    def test_repositories_are_offered_by_name_and_found(self, member: Enter, acme: Scene) -> None:
        factories.repository(acme.session, acme.organization, "acme/old", enabled=False)
        person = member("member")
        page = person.open("/freezes/new")
        assert page.text.index("acme/api") < page.text.index("acme/web")
        assert "acme/old" not in page.text
        form = page.form("Start the freeze")
        form.action = "/repositories/choices"
        found = person.send(form, find="WEB").text
        assert ("acme/web" in found, "acme/api" in found, "<html" in found) == (True, False, False)
        assert "No enabled repository matches" in person.send(form, find="none").text

    def test_repositories_that_are_ticked_stay_while_others_are_found(self, member: Enter) -> None:
        person = member("member")
        page = person.press(person.open("/freezes/new"), "Find", repositories="acme/api", find="web")
        assert page.form("Start the freeze").fields["repositories"] == "acme/api"
        assert "acme/web" in page.text

    def test_several_repositories_are_frozen(self, member: Enter, acme: Scene) -> None:
        person = member("member")
        fields = {"scope": "repositories", "repositories": ["acme/web", "acme/api"], "reason": REASON}
        page = person.press(person.open("/freezes/new"), "Show what it covers", **fields)  # type: ignore[arg-type]
        assert "2 branches of 2 repositories would be frozen" in words(page)
        person.press(page, "Start the freeze", **fields)  # type: ignore[arg-type]
        [freeze] = acme.session.scalars(select(Freeze))
        assert freeze.scope["type"] == "repositories"

    def test_exclusions_are_said_wherever_a_scope_is_shown(self, member: Enter, acme: Scene) -> None:
        fields = {"scope": "glob", "patterns": "acme/*\n!acme/api", "reason": REASON}
        page = press(member("member"), "Start the freeze", **fields)
        assert "Repositories matching acme/* but not acme/api" in words(page)
