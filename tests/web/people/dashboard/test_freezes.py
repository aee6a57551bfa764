"""`/freezes`: start, follow, change and end freezes."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from models.freezes import Freeze
from tests import factories
from tests.web.people.dashboard.conftest import Enter, Scene, words
from tests.web.people.dashboard.filled import ADA
from tests.web.people.forms import Page, Person

REASON = "Database migration until Friday"


def frozen(acme: Scene) -> list[Freeze]:
    acme.session.expire_all()
    return list(acme.session.scalars(select(Freeze).order_by(Freeze.started_at, Freeze.id)))


def start(person: Person, **fields: str) -> Page:
    """Fill the form in and start; the impact is shown first, as it is without scripts."""
    page = person.press(person.open("/freezes/new"), "Show what it covers", **fields)
    return person.press(page, "Start the freeze", **fields)


class TestList:
    def test_list_shows_freezes_by_state_and_repository(self, member: Enter, acme: Scene) -> None:
        viewer = member("viewer")
        assert "Nothing is frozen" in viewer.open("/freezes").text
        factories.freeze(acme.session, acme.organization, [acme.web], reason=REASON)
        ended = {"ended_at": factories.now(), "end_reason": "lifted", "ended_by": factories.SYSTEM}
        factories.freeze(acme.session, acme.organization, [acme.api], reason="An old one", **ended)
        shown = words(viewer.open("/freezes"))
        assert (REASON in shown, "An old one" in shown) == (True, False)
        assert "An old one" in viewer.open("/freezes", show="ended").text
        assert "An old one" in viewer.open("/freezes", repo="acme/api").text
        assert "No freeze matches" in viewer.open("/freezes", repo="acme/api", show="in_force").text

    def test_freeze_of_a_key_says_that_it_is_one(self, member: Enter, acme: Scene) -> None:
        key = {"type": "api_key", "id": "key_1", "name": "Ada Byron"}
        freeze = factories.freeze(acme.session, acme.organization, [acme.web], created_by=key)
        viewer = member("viewer")
        for address in ("/freezes", f"/freezes/{freeze.id}"):
            assert "by Ada Byron (API key)" in words(viewer.open(address))

    def test_freezes_are_found_by_words_person_and_day(self, member: Enter, acme: Scene) -> None:
        march = datetime(2026, 3, 12, 9, tzinfo=UTC)
        ended = {"ended_at": march + timedelta(days=2), "end_reason": "lifted", "ended_by": ADA}
        factories.freeze(acme.session, acme.organization, [acme.api], reason=REASON, started_at=march, **ended)
        factories.freeze(acme.session, acme.organization, [acme.web], reason="Another one")
        viewer = member("viewer")
        for given in (
            {"q": "database"},
            {"person": "lovelace"},
            {"from": "2026-03-01", "to": "2026-03-12"},
            {"from": "2026-03-13", "to": "2026-03-13"},
            {"q": "MIGRATION", "repo": "acme/api", "show": "ended"},
        ):
            shown = words(viewer.open("/freezes", **given))
            assert (REASON in shown, "Another one" in shown) == (True, False), given
            assert "lifted by Ada Lovelace" in shown
        assert "No freeze matches" in viewer.open("/freezes", to="2026-03-11").text

    def test_one_day_of_a_search_is_completed_by_the_other(self, member: Enter, acme: Scene) -> None:
        march = datetime(2026, 3, 12, 9, tzinfo=UTC)
        factories.freeze(acme.session, acme.organization, [acme.api], reason=REASON, started_at=march)
        viewer, today = member("viewer"), f"{factories.now():%Y-%m-%d}"
        for given, shown in (
            ({"from": "2026-05-01"}, {"from": "2026-05-01", "to": today}),
            ({"to": "2026-03-13"}, {"from": "2025-02-07", "to": "2026-03-13"}),
        ):
            page = viewer.open("/freezes", **given)
            assert REASON in words(page)
            assert page.form("Find").fields.items() >= shown.items()

    def test_range_that_is_too_long_is_refused_at_its_field(self, member: Enter) -> None:
        page = member("viewer").open("/freezes", **{"from": "2024-01-01", "to": "2026-01-01"})
        assert page.status == 400
        assert "In force to must be given, and the range be 400 days long at most" in words(page)

    def test_page_of_nothing_shows_no_id(self, member: Enter) -> None:
        page = member("viewer").open("/freezes/frz_01k7urvsaoopudarfi5or1b8ab")
        assert (page.status, "Freeze not found in this organisation." in words(page)) == (404, True)

    def test_filter_that_is_refused_is_reported_at_its_field(self, member: Enter, acme: Scene) -> None:
        page = member("viewer").open("/freezes", repo="acme/none", q="x")
        assert (page.status, "acme/none" in page.text) == (404, True)
        assert page.form("Find").fields["q"] == "x"

    def test_pages_of_freezes_lead_back_and_forth(self, member: Enter, acme: Scene) -> None:
        ended: dict[str, Any] = {"ended_at": factories.now(), "end_reason": "lifted", "ended_by": factories.SYSTEM}
        for number in range(151):
            started = factories.now() - timedelta(days=200 - number)
            factories.freeze(acme.session, acme.organization, reason=f"Release {number}.", started_at=started, **ended)
        viewer, button = member("viewer"), "Next rows"
        pages = [viewer.open("/freezes", q="release", show="ended")]
        for button in ("Next rows", "Next rows", "Next rows", "Previous rows", "Previous rows", "Previous rows"):
            pages.append(viewer.open(pages[-1].links[button]))
        firsts = [150, 100, 50, 0, 50, 100, 150]
        assert [re.findall(r"Release (\d+)\.", each.text)[0] for each in pages] == [str(each) for each in firsts]
        assert {"Previous rows", "First rows"} & set(pages[-1].links) == set()

    def test_list_of_freezes_has_pages(self, member: Enter, acme: Scene) -> None:
        for number in range(21):
            factories.freeze(acme.session, acme.organization, reason=f"Release number {number}")
        viewer = member("viewer")
        page = viewer.open("/freezes")
        assert page.text.count("Release number") == 20
        assert viewer.open(page.links["Next rows"]).text.count("Release number") == 1


class TestStaleForms:
    @pytest.mark.parametrize("form", ["lift", "extend"])
    def test_form_of_a_lifted_freeze_says_who_lifted_it(self, member: Enter, acme: Scene, form: str) -> None:
        freeze = factories.freeze(acme.session, acme.organization, [acme.web], reason=REASON)
        person, owner = member("member"), member("owner")
        stale = person.open(f"/freezes/{freeze.id}/{form}")
        owner.press(owner.open(f"/freezes/{freeze.id}/lift"), "Lift the freeze")
        said = f"“{REASON}” has ended already Owner lifted it just now"
        assert said in words(person.open(f"/freezes/{freeze.id}/{form}"))
        button = {"lift": "Lift the freeze", "extend": "Change the end"}[form]
        refused = person.press(stale, button, ends_at="2099-01-04T09:00")
        assert (refused.status, said in words(refused)) == (409, True)


class TestNewFreeze:
    def test_form_shows_the_impact_and_starts_a_freeze_of_one_branch(self, member: Enter, acme: Scene) -> None:
        factories.pull_request(acme.session, acme.repositories[0])
        person = member("member")
        page = start(person, scope="branch", repository="acme/web", branch="main", reason=REASON, exceptions="")
        assert "The freeze has started." in page.text
        [freeze] = frozen(acme)
        assert (freeze.reason, freeze.exceptions_allowed, freeze.scope["type"]) == (REASON, False, "branch")
        assert page.title == REASON

    @pytest.mark.parametrize(("box", "applies"), [("1", True), ("", False)])
    def test_page_says_that_exception_rules_do_not_apply(
        self, member: Enter, acme: Scene, box: str, *, applies: bool
    ) -> None:
        given = {"scope": "branch", "repository": "acme/web", "branch": "main", "reason": REASON}
        page = start(member("member"), **given, exception_rules=box)
        [freeze] = frozen(acme)
        assert (freeze.exceptions_allowed, freeze.exception_rules_allowed) == (True, applies)
        assert ("Exception rulesDo not apply" in words(page)) is not applies

    def test_second_freeze_of_a_branch_says_that_another_covers_it(self, member: Enter, acme: Scene) -> None:
        factories.freeze(acme.session, acme.organization, [acme.web])
        page = start(member("member"), scope="branch", repository="acme/web", branch="main", reason=REASON)
        assert "The freeze has started. Other freezes cover some of its branches already." in page.text

    def test_public_text_is_stored_and_shown_with_the_freeze(self, member: Enter, acme: Scene) -> None:
        text = "Merging is paused"
        fields = {"scope": "branch", "repository": "acme/web", "branch": "main", "reason": REASON}
        page = start(member("member"), **fields, public_text=text)
        assert [freeze.public_text for freeze in frozen(acme)] == [text]
        assert text in words(page)

    def test_public_text_that_is_too_long_is_a_problem_of_its_field(self, member: Enter, acme: Scene) -> None:
        fields = {"scope": "branch", "repository": "acme/web", "branch": "main", "reason": REASON}
        page = start(member("member"), **fields, public_text="x" * 201)
        assert "The text in public repositories must have at most 200 characters" in words(page)
        assert frozen(acme) == []

    def test_link_of_a_branch_freezes_that_branch(self, member: Enter, acme: Scene) -> None:
        person = member("member")
        page = person.open(person.open(f"/branches/{acme.web.id}").links["Freeze it"])
        assert "1 branch of 1 repository would be frozen" in words(page)
        person.press(page, "Start the freeze", reason=REASON)
        assert [freeze.scope["type"] for freeze in frozen(acme)] == ["branch"]

    def test_freeze_of_the_organization_needs_its_count_typed(self, member: Enter, acme: Scene) -> None:
        person = member("member")
        page = person.press(person.open("/freezes/new"), "Show what it covers", scope="organization")
        assert "2 branches of 2 repositories would be frozen" in words(page)
        page = person.press(page, "Start the freeze", reason=REASON)
        assert page.status == 422
        assert "Type 2, the number of branches that the freeze covers, to confirm it." in page.text
        assert frozen(acme) == []
        page = person.press(page, "Start the freeze", confirmed="2", ends_at="2099-01-04T09:00", zone="Europe/Berlin")
        [freeze] = frozen(acme)
        assert freeze.previewed_repo_count == 2
        assert freeze.ends_at is not None
        assert freeze.ends_at.isoformat() == "2099-01-04T08:00:00+00:00"

    def test_end_in_an_unknown_time_zone_is_refused(self, member: Enter, acme: Scene) -> None:
        person = member("member")
        fields = {"reason": REASON, "confirmed": "2", "ends_at": "2099-01-04T09:00", "zone": "America"}
        page = person.press(person.open("/freezes/new"), "Start the freeze", **fields)
        assert (page.status, frozen(acme)) == (422, [])

    def test_freeze_starts_only_with_the_impact_that_was_shown(self, member: Enter, acme: Scene) -> None:
        person = member("member")
        page = person.open("/freezes/new")
        page = person.press(page, "Start the freeze", scope="glob", patterns="acme/w*", reason=REASON)
        assert "Check below what the freeze covers now" in page.text
        assert "1 branch of 1 repository would be frozen" in words(page)
        person.press(page, "Start the freeze")
        assert [freeze.scope for freeze in frozen(acme)] == [{"type": "glob", "patterns": ["acme/w*"]}]

    def test_impact_follows_the_scope_and_names_branches_that_would_not_block(self, member: Enter, acme: Scene) -> None:
        next_branch = factories.branch(acme.session, acme.repositories[0], "next")
        factories.branch_enforcement(acme.session, next_branch, "red")
        person = member("member")
        for number, base in ((1, "main"), (2, "main"), (3, "next")):
            factories.pull_request(acme.session, acme.repositories[0], number, base_branch=base)
        form = person.open("/freezes/new").form("Start the freeze")
        form.action = "/freezes/new/impact"
        shown = words(Page(person.send(form, scope="glob", patterns="acme/web")))
        first = shown.index("1 of 2 branches would not be blocked.")
        assert first < shown.index("acme/web:next") < shown.index("2 branches of 1 repository would be frozen")
        said = (
            "2 of 3 open pull requests would stop merging. 1 would not: No rule in force at GitHub requires our check"
        )
        assert said in shown
        assert "Set up the rules" in shown
        assert "Choose what to freeze" in person.send(form, scope="glob").text
        assert "No watched branch is covered" in person.send(form, scope="glob", patterns="none/*").text
        assert person.send(form, scope="glob", patterns="a//b").status_code == 200

    def test_refused_field_keeps_the_form_and_leads_to_the_field(self, member: Enter, acme: Scene) -> None:
        cases: list[tuple[dict[str, str], str]] = [
            ({"reason": "short"}, "#reason"),
            ({"reason": REASON, "ends_at": "yesterday"}, "#ends_at"),
            ({"reason": REASON, "ends_at": "2020-01-01T00:00"}, "#ends_at"),
            ({"reason": REASON, "ends_at": "2099-01-01T00:00", "zone": "Mars/Olympus"}, "#ends_at"),
        ]
        person = member("member")
        for fields, field in cases:
            page = start(person, scope="repositories", repositories="acme/web", **fields)
            assert 400 <= page.status < 500
            assert field in page.links.values()
            assert page.form("Start the freeze").fields["repositories"] == "acme/web"
            assert frozen(acme) == []

    def test_all_fields_that_are_wrong_are_named_at_once(self, member: Enter, acme: Scene) -> None:
        person = member("member")
        page = start(person, scope="glob", reason="short", ends_at="yesterday")
        assert {"#patterns", "#reason", "#ends_at"} <= set(page.links.values())
        assert "The reason must have at least 8 characters" in page.text
        page = start(person, scope="organization", reason="short")
        assert {"#confirmed", "#reason"} <= set(page.links.values())
        assert frozen(acme) == []

    def test_unknown_repository_is_reported_at_its_field(self, member: Enter, acme: Scene) -> None:
        person = member("member")
        page = start(person, scope="repositories", repositories="acme/none", reason=REASON)
        assert page.status >= 400
        assert "#repositories" in page.links.values()
        page = start(person, scope="branch", repository="acme/none", branch="main", reason=REASON)
        assert words(page).count("This organisation has no repository 'acme/none'") == 2

    def test_viewer_gets_no_form(self, member: Enter) -> None:
        page = member("viewer").open("/freezes/new")
        assert "Starting a freeze needs the role member." in words(page)
        assert not any("Start" in text for form in page.forms for _, _, text in form.buttons)

    def test_form_that_is_sent_twice_starts_one_freeze(self, member: Enter, acme: Scene) -> None:
        person = member("member")
        fields = {"scope": "repositories", "repositories": "acme/web", "reason": REASON}
        page = person.press(person.open("/freezes/new"), "Show what it covers", **fields)
        for _ in range(2):
            assert person.press(page, "Start the freeze", **fields).title == REASON
        assert len(frozen(acme)) == 1


class TestFreeze:
    def test_page_lists_failed_branches_first_and_writes_them_again(self, member: Enter, acme: Scene) -> None:
        freeze = factories.freeze(acme.session, acme.organization, reason=REASON)
        factories.target(acme.session, freeze, acme.web, state="applied")
        failed = {"state": "failed", "last_error_code": "forbidden", "last_error_message": "GitHub refused it."}
        factories.target(acme.session, freeze, acme.api, **failed)
        person = member("member")
        page = person.open(f"/freezes/{freeze.id}")
        shown = words(page)
        assert shown.index("acme/api:main") < shown.index("acme/web:main")
        assert "GitHub refused it." in shown
        assert "1 of 2 could not be written" in shown
        page = person.press(page, "Write the failed branches again")
        assert "The failed branches are being written again." in page.text
        assert "acme/api:main" not in person.open(f"/freezes/{freeze.id}", show="applied").text

    def test_checks_of_a_branch_are_not_counted_before_its_pull_requests_are_read(
        self, member: Enter, acme: Scene
    ) -> None:
        freeze = factories.freeze(acme.session, acme.organization)
        factories.target(acme.session, freeze, acme.web)
        factories.target(acme.session, freeze, acme.api, state="applied")
        shown = words(member("viewer").open(f"/freezes/{freeze.id}"))
        assert (shown.count("Not read yet"), shown.count("No open pull request")) == (1, 1)

    def test_page_shows_its_history(self, member: Enter, acme: Scene) -> None:
        page = start(member("member"), scope="repositories", repositories="acme/web", reason=REASON)
        assert "Freeze startedMember, just now" in words(page)

    def test_progress_has_the_page_read_once_nothing_moves(self, member: Enter, acme: Scene) -> None:
        freeze = factories.freeze(acme.session, acme.organization)
        target = factories.target(acme.session, freeze, acme.web)
        viewer = member("viewer")
        part = viewer.open(f"/freezes/{freeze.id}/progress", moving="1")
        assert "Checks written: 0 of 1 branch" in words(part)
        assert "HX-Refresh" not in part.answer.headers
        target.state = "applied"
        acme.session.flush()
        assert viewer.open(f"/freezes/{freeze.id}/progress", moving="1").answer.headers["HX-Refresh"] == "true"

    def test_lift_says_what_stays_frozen(self, member: Enter, acme: Scene) -> None:
        freeze = factories.freeze(acme.session, acme.organization, [acme.web, acme.api], reason=REASON)
        factories.freeze(acme.session, acme.organization, [acme.api], reason="Another one")
        person = member("member")
        page, stale = (person.open(f"/freezes/{freeze.id}/lift") for _ in range(2))
        assert "1 branch is frozen no longer" in words(page)
        assert "1 branch stays frozen by other freezes: 1 by Another one acme/api:main" in words(page)
        page = person.press(page, "Lift the freeze")
        assert "The freeze is lifted. Other freezes still cover some of its branches." in page.text
        assert [row.end_reason for row in frozen(acme)] == ["lifted", None]
        assert person.press(stale, "Lift the freeze").status == 409

    def test_lift_of_a_wide_freeze_counts_what_it_does_not_list(self, member: Enter, acme: Scene) -> None:
        branches = [factories.branch(acme.session, acme.repositories[0], f"release/{number}") for number in range(6)]
        freeze = factories.freeze(acme.session, acme.organization, branches, reason=REASON)
        for number, branch in enumerate(branches):
            factories.freeze(acme.session, acme.organization, [branch], reason=f"Release {number}")
        shown = words(member("member").open(f"/freezes/{freeze.id}/lift"))
        assert "0 branches are frozen no longer" in shown
        assert "6 branches stay frozen by other freezes: 1 by Release 0" in shown
        assert "and others by 1 more freezes" in shown
        assert "and 1 more: the pages of these freezes list them" in shown
        assert ("acme/web:release/4" in shown, "acme/web:release/5" in shown) == (True, False)

    def test_dialog_shows_the_form_without_the_frame(self, member: Enter, acme: Scene) -> None:
        freeze = factories.freeze(acme.session, acme.organization, [acme.web])
        headers = {"HX-Request": "true", "HX-Target": "div#dialog-content"}
        text = member("member").client.get(f"/freezes/{freeze.id}/lift", headers=headers).text
        assert 'id="dialog-title"' in text
        assert "<html" not in text

    def test_end_is_moved_later_and_removed(self, member: Enter, acme: Scene) -> None:
        freeze = factories.freeze(acme.session, acme.organization, [acme.web])
        person = member("member")
        page = person.open(f"/freezes/{freeze.id}/extend")
        refused = person.press(page, "Change the end", ends_at="")
        assert "#ends_at" in refused.links.values()
        assert "has been changed" in person.press(page, "Change the end", ends_at="2099-01-04T09:00").text
        assert frozen(acme)[0].ends_at is not None
        person.press(person.open(f"/freezes/{freeze.id}/extend"), "Change the end", open="1")
        assert frozen(acme)[0].ends_at is None

    def test_window_of_a_schedule_is_ended_with_a_reason(self, member: Enter, acme: Scene) -> None:
        schedule = factories.schedule(acme.session, acme.organization)
        freeze = factories.freeze(
            acme.session, acme.organization, [acme.web], source="schedule", schedule_id=schedule.id, reason=REASON
        )
        person = member("member")
        assert "End this window" in person.open(f"/freezes/{freeze.id}").links
        page = person.press(person.open(f"/freezes/{freeze.id}/override"), "End this window", reason="short")
        assert "#reason" in page.links.values()
        person.press(page, "End this window", reason="The release is out")
        assert [row.end_reason for row in frozen(acme)] == ["overridden"]

    def test_unknown_freeze_is_not_found(self, member: Enter) -> None:
        page = member("viewer").open("/freezes/frz_01k7urvsaoopudarfi5or1b8ab")
        assert (page.status, page.title) == (404, "Not found")
