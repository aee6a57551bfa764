"""`/exceptions/rules`: rules in words, the form that adds one, and what one would let in."""

import pytest
from sqlalchemy import select

from models.exception_rules import ExceptionRule
from tests import factories
from tests.web.people.dashboard.conftest import Enter, Scene, words

FORM = {
    "name": "Documentation only",
    "reason": "Documentation is not part of the release",
    "branches": "main",
    "files": "docs/**\n*.md",
    "max_lines": "200",
}


@pytest.fixture
def rule(acme: Scene) -> ExceptionRule:
    label = {"label": {"name": "hotfix", "setBy": {"teams": ["acme/captains"]}}}
    files = {"paths": {"onlyMatching": ["docs/**"], "noneMatching": ["docs/api/**"]}}
    allow = {"all": [{"any": [label, files]}, {"changedLines": {"atMost": 20}}]}
    return factories.exception_rule(acme.session, acme.organization, name="Hotfixes", allow=allow, per_freeze=5)


def test_form_adds_a_rule(member: Enter, acme: Scene) -> None:
    admin = member("admin")
    page = admin.press(admin.open("/exceptions/rules"), "Add rule", **FORM)

    assert "The rule is on" in page.text
    assert "Only files that match" not in words(page)
    assert "only files that match docs/** or *.md" in words(page)
    made = acme.session.scalars(select(ExceptionRule)).one()
    assert made.allow == {"all": [{"paths": {"onlyMatching": ["docs/**", "*.md"]}}, {"changedLines": {"atMost": 200}}]}
    assert made.scope == {"type": "organization", "branches": ["main"]}


def test_what_is_wrong_is_said_at_its_field(member: Enter) -> None:
    cases: list[tuple[dict[str, str], str]] = [
        ({"name": ""}, "name"),
        ({"reason": "no"}, "reason"),
        ({"files": "**"}, "files"),
        ({"files": ""}, "files"),
        ({"files": "", "label": "hotfix"}, "label_by"),
        ({"max_lines": "many"}, "max_lines"),
        ({"per_freeze": "0"}, "per_freeze"),
    ]
    admin = member("admin")
    for given, field in cases:
        page = admin.press(admin.open("/exceptions/rules"), "Add rule", **FORM | given)

        assert f"#{field}" in page.links.values()
        kept = page.form("Add rule").fields
        assert {name: kept[name] for name in ("branches", "max_lines")} == {
            name: (FORM | given)[name] for name in ("branches", "max_lines")
        }


def test_rule_is_shown_in_words(member: Enter, rule: ExceptionRule) -> None:
    viewer = member("viewer")
    page = viewer.open(viewer.open("/exceptions/rules").links["Hotfixes"])

    shown = words(page)
    assert "All of these: One of these: the label hotfix, set by @acme/captains on this head" in shown
    assert "only files that match docs/** and no file that matches docs/api/**" in shown
    assert "at most 20 changed lines" in shown
    assert "5 pull requests at most" in shown
    assert "Switch off" not in shown


def test_rule_is_switched_off_and_deleted(member: Enter, acme: Scene, rule: ExceptionRule) -> None:
    admin = member("admin")
    page = admin.press(admin.open(f"/exceptions/rules/{rule.id}"), "Switch off")
    assert "The rule is off." in page.text
    page = admin.press(page, "Delete Hotfixes")
    assert "The rule has been deleted." in page.text
    acme.session.expire_all()
    assert acme.session.scalars(select(ExceptionRule)).all() == []


def test_preview_says_that_nothing_is_open(member: Enter, acme: Scene) -> None:
    rule = factories.exception_rule(acme.session, acme.organization)
    viewer = member("viewer")
    page = viewer.press(viewer.open(f"/exceptions/rules/{rule.id}"), "Preview")

    assert "Now it would let in 0 of 0" in words(page)


def test_member_who_may_not_write_rules_sees_no_form(member: Enter) -> None:
    assert "Add rule" not in member("member").open("/exceptions/rules").text


def test_form_takes_freezes_that_people_start_alone(member: Enter, acme: Scene) -> None:
    admin = member("admin")
    admin.press(admin.open("/exceptions/rules"), "Add rule", **FORM, freezes="manual")

    assert acme.session.scalars(select(ExceptionRule)).one().freezes == "manual"


def test_rule_leads_to_what_it_has_let_in(member: Enter, acme: Scene, rule: ExceptionRule) -> None:
    freeze = factories.freeze(acme.session, acme.organization, [acme.web])
    numbers = {7: {"rule_id": rule.id, "rule_name": rule.name}, 12: {}}
    for number, columns in numbers.items():
        pull = factories.pull_request(acme.session, acme.repositories[0], number)
        factories.exception(acme.session, freeze, pull, acme.web, **columns)
    viewer = member("viewer")
    page = viewer.open(viewer.open(f"/exceptions/rules/{rule.id}").links["All of them"])

    assert "acme/web#7" in page.links
    assert "acme/web#12" not in page.links
