"""`/exceptions/rules/{id}/edit`: the form of a rule, filled in from it, and previews of what it says."""

from itertools import product
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from models.audit import AuditEntry
from models.exception_rules import ExceptionRule
from tests import factories
from tests.web.people.dashboard.conftest import Enter, Scene, words
from web.dashboard.exception_rule_fields import EDITED, FIELDS, body_of, values_of

PATHS = {"paths": {"onlyMatching": ["docs/**", "*.md"]}}
LABEL = {"label": {"name": "hotfix now", "setBy": {"accounts": ["octocat"], "teams": ["acme/captains"]}}}
AUTHOR = {"author": {"accounts": ["dependabot[bot]", "renovate[bot]"]}}
TWO = {"approvals": {"fromTeam": "acme/captains", "atLeast": 2}}
ONE = {"approvals": {"fromTeam": "acme/security", "atLeast": 1}}
NEVER = {"paths": {"noneMatching": ["docs/api/**"]}}
LINES = {"changedLines": {"atMost": 200}}
HEAD = {"head": {"sameRepository": True}}
BOTH = {"paths": {"onlyMatching": ["docs/**"], "noneMatching": ["docs/api/**"]}}
SHOWN = (
    {"all": [PATHS]},
    {"any": [PATHS, LABEL]},
    {"all": [LABEL, TWO, ONE, HEAD]},
    {"all": [{"any": [PATHS, AUTHOR, TWO, ONE]}, NEVER, LINES, HEAD]},
    {"all": [BOTH, LINES]},
    {"all": [LINES, {"all": [PATHS, NEVER]}]},
    {"any": [{"all": [AUTHOR, HEAD]}]},
)
"""Conditions that the form can show, also where it would write them in another way."""
NOT_SHOWN = (
    {"any": [PATHS, {"all": [LABEL, LINES]}]},
    {"all": [{"any": [LABEL, BOTH]}, LINES]},
    {"all": [{"any": [PATHS, LABEL]}, {"any": [AUTHOR, TWO]}]},
    {"all": [{"any": [PATHS, LABEL]}, AUTHOR]},
    {"all": [LABEL, {"label": {"name": "docs", "setBy": {"accounts": ["octocat"]}}}]},
    {"all": [PATHS, LINES, {"changedLines": {"atMost": 20}}]},
    {"all": [{"paths": {"onlyMatching": ["My docs/**"]}}]},
    {"any": [PATHS, LABEL, {"any": [LABEL, AUTHOR]}]},
)
GROUNDS = (
    {"files": "docs/**\n*.md"},
    {"label": "hotfix", "label_by": "acme/captains, octocat"},
    {"accounts": "dependabot[bot]"},
    {"approvals": "acme/captains: 2\nacme/security: 1"},
)
NARROWING = ({"never": "docs/api/**"}, {"max_lines": "200"}, {"same_repository": "on"})
SCOPES = (
    {"scope": "organization"},
    {"scope": "organization", "branches": "main, release/*"},
    {"scope": "glob", "patterns": "acme/*, !acme/docs", "branches": "main"},
    {"scope": "repositories", "repositories": "acme/web\nacme/api"},
    {"scope": "branch", "repository": "acme/web", "branch": "main"},
)
FREEZES = (
    {"freezes": "all"},
    {"freezes": "manual"},
    {"freezes": "schedules", "schedules": "sch_06aq1m3k0v5t8c2n7d4e9f1ga1\nsch_06aq1m3k0v5t8c2n7d4e9f1ga2"},
)


def changes_of(session: Session) -> int:
    """Return how many changes of rules the audit log has."""
    query = select(func.count()).where(AuditEntry.action == "exception_rule.changed")
    return session.scalars(query.select_from(AuditEntry)).one()


def columns_of(session: Session, rule_id: str) -> dict[str, Any]:
    """Return a rule as it is stored."""
    session.expire_all()
    rule = session.get_one(ExceptionRule, rule_id)
    return {name: getattr(rule, name) for name in ExceptionRule.__table__.columns.keys()}  # noqa: SIM118


class TestFields:
    """The rule that a form describes fills the form in as it was."""

    @pytest.mark.parametrize("scope", SCOPES)
    @pytest.mark.parametrize("freezes", FREEZES)
    @pytest.mark.parametrize("per_freeze", ["", "20"])
    def test_where_and_when(self, scope: dict[str, str], freezes: dict[str, str], per_freeze: str) -> None:
        terms = {"name": "Docs", "reason": "Not part of\nthe release", "files": "docs/**", "grounds": "all"}
        given = dict.fromkeys(FIELDS, "") | terms | scope | freezes | {"per_freeze": per_freeze}
        assert values_of(body_of(given)) == given

    @pytest.mark.parametrize("grounds", ["any", "all"])
    def test_every_combination_of_conditions(self, grounds: str) -> None:
        kinds = (*GROUNDS, *NARROWING)
        base = dict.fromkeys(FIELDS, "") | {"name": "Docs", "reason": "Not released", "scope": "organization"}
        for chosen in product((False, True), repeat=len(kinds)):
            fields = {
                name: text for kind, wanted in zip(kinds, chosen, strict=True) if wanted for name, text in kind.items()
            }
            given = base | {"freezes": "all", "grounds": grounds} | fields
            single = sum(chosen[: len(GROUNDS)]) < 2 and not given["approvals"]
            assert values_of(body_of(given)) == given | ({"grounds": "all"} if single else {})

    @pytest.mark.parametrize("allow", SHOWN)
    def test_rule_that_is_written_in_another_way_stays_as_it_is(self, allow: dict[str, Any]) -> None:
        rule = {
            "name": "Docs",
            "reason": "Not released",
            "appliesTo": {"scope": {"type": "organization"}, "freezes": "all"},
            "allow": allow,
            "limits": {"perFreeze": None},
        }
        values = values_of(rule)
        assert values is not None
        assert body_of(values, rule) == rule
        assert body_of(values | {"max_lines": "7"}, rule)["allow"] != allow
        assert set(rule) == set(EDITED)


def test_form_that_is_sent_unchanged_changes_nothing(member: Enter, acme: Scene) -> None:
    schedule, admin = factories.schedule(acme.session, acme.organization), member("admin")
    scope = {"type": "glob", "patterns": ["acme/*", "!acme/docs"], "branches": ["main"]}
    given = {"scope": scope, "freezes": "schedules", "schedule_ids": [schedule.id], "per_freeze": 3}
    for allow in SHOWN:
        rule = factories.exception_rule(acme.session, acme.organization, allow=allow, **given)
        before = columns_of(acme.session, rule.id)
        page = admin.press(admin.open(admin.open(f"/exceptions/rules/{rule.id}").links["Edit"]), "Save")
        assert "The rule has been changed." in page.text
        assert columns_of(acme.session, rule.id) == before
    assert changes_of(acme.session) == 0


def test_form_changes_what_it_shows(member: Enter, acme: Scene) -> None:
    schedules = [factories.schedule(acme.session, acme.organization, name=name) for name in ("Weekends", "Winter")]
    rule = factories.exception_rule(acme.session, acme.organization, per_freeze=3)
    admin = member("admin")
    page = admin.press(
        admin.open(f"/exceptions/rules/{rule.id}/edit"),
        "Save",
        name="Guides",
        scope="branch",
        repository="acme/web",
        branch="main",
        freezes="schedules",
        schedules="\n".join(each.id for each in schedules),
        files="guides/**",
        never="guides/api/**",
        max_lines="50",
        per_freeze="",
    )

    assert "Those of Weekends, Winter" in words(page)
    assert "no file that matches guides/api/**" in words(page)
    stored = columns_of(acme.session, rule.id)
    assert (stored["name"], stored["per_freeze"]) == ("Guides", None)
    assert (stored["scope"]["type"], stored["schedule_ids"]) == ("branch", [each.id for each in schedules])
    only, never = {"paths": {"onlyMatching": ["guides/**"]}}, {"paths": {"noneMatching": ["guides/api/**"]}}
    assert stored["allow"] == {"all": [only, never, {"changedLines": {"atMost": 50}}]}
    assert changes_of(acme.session) == 1


OF_PREVIEWS: list[tuple[dict[str, str], str]] = [
    ({"files": "**"}, "files"),
    ({"never": "/"}, "never"),
    ({"label_by": "octocat"}, "label"),
    ({"approvals": "captains: 2"}, "approvals"),
    ({"approvals": "acme/captains: two"}, "approvals"),
    ({"freezes": "schedules"}, "schedules"),
    ({"freezes": "schedules", "schedules": "sch_unknown"}, "schedules"),
    ({"freezes": "some"}, "freezes"),
    ({"scope": "glob", "patterns": ""}, "patterns"),
    ({"scope": "repositories", "repositories": "acme/none"}, "repositories"),
    ({"scope": "branch", "repository": "acme/web", "branch": ""}, "branch"),
]
OF_SAVED_RULES = [({"per_freeze": "many"}, "per_freeze"), ({"name": ""}, "name"), ({"reason": "short"}, "reason")]


@pytest.mark.parametrize(("button", "rows"), [("Save", OF_PREVIEWS + OF_SAVED_RULES), ("Preview", OF_PREVIEWS)])
def test_what_is_wrong_is_said_at_its_field(
    member: Enter, acme: Scene, button: str, rows: list[tuple[dict[str, str], str]]
) -> None:
    rule = factories.exception_rule(acme.session, acme.organization)
    admin = member("admin")
    for given, field in rows:
        page = admin.press(admin.open(f"/exceptions/rules/{rule.id}/edit"), button, **given)
        assert f"#{field}" in page.links.values(), given
        assert field in page.ids
        kept = page.form("Save").fields
        asked = {name: text for name, text in given.items() if name not in {"freezes", "schedules", "repositories"}}
        assert {name: kept[name] for name in asked} == asked


@pytest.mark.parametrize("allow", NOT_SHOWN)
def test_rule_that_says_more_than_the_form_is_not_edited_by_it(
    member: Enter, acme: Scene, allow: dict[str, Any]
) -> None:
    rule = factories.exception_rule(acme.session, acme.organization, allow=allow)
    admin = member("admin")
    shown, form = admin.open(f"/exceptions/rules/{rule.id}"), admin.open(f"/exceptions/rules/{rule.id}/edit")

    for page in (shown, form):
        assert "This rule says more than the form can show" in words(page)
        assert "PATCH /v1/exception-rules/{ruleId}" in words(page)
    assert "Edit" not in shown.links
    assert "Save" not in form.text


def test_viewer_finds_no_form(member: Enter, acme: Scene) -> None:
    rule = factories.exception_rule(acme.session, acme.organization)
    viewer = member("viewer")

    assert "Edit" not in viewer.open(f"/exceptions/rules/{rule.id}").links
    assert "Writing rules needs the role admin" in words(viewer.open(f"/exceptions/rules/{rule.id}/edit"))


@pytest.mark.parametrize("made", [True, False])
def test_preview_keeps_the_form_and_saves_nothing(member: Enter, acme: Scene, *, made: bool) -> None:
    rule = factories.exception_rule(acme.session, acme.organization)
    before = columns_of(acme.session, rule.id)
    admin = member("admin")
    form = admin.open(f"/exceptions/rules/{rule.id}/edit" if made else "/exceptions/rules")
    page = admin.press(form, "Preview", name="", files="guides/**", max_lines="9")

    assert "Now it would let in 0 of 0" in words(page)
    fields = page.form("Preview").fields
    assert (fields["files"], fields["max_lines"], fields["name"]) == ("guides/**", "9", "")
    assert columns_of(acme.session, rule.id) == before
    assert acme.session.scalars(select(func.count()).select_from(ExceptionRule)).one() == 1


class TestMeanwhile:
    """A rule that somebody else has changed since it was shown."""

    def test_form_does_not_replace_a_later_change_unseen(self, member: Enter, acme: Scene) -> None:
        rule = factories.exception_rule(acme.session, acme.organization)
        admin, other = member("admin"), member("owner")
        address = f"/exceptions/rules/{rule.id}/edit"
        mine, theirs = admin.open(address), other.open(address)
        other.press(theirs, "Save", name="Guides")
        page = admin.press(mine, "Save", name="Manuals")

        assert page.status == 412
        assert "Someone has changed this since you opened the form." in page.text
        assert page.form("Save").fields["name"] == "Manuals"
        assert columns_of(acme.session, rule.id)["name"] == "Guides"
        assert "The rule has been changed." in admin.press(page, "Save").text
        assert columns_of(acme.session, rule.id)["name"] == "Manuals"

    @pytest.mark.parametrize("made", [True, False])
    def test_preview_does_not_make_a_form_newer(self, member: Enter, acme: Scene, *, made: bool) -> None:
        rule = factories.exception_rule(acme.session, acme.organization)
        admin = member("admin")
        mine = admin.open(f"/exceptions/rules/{rule.id}/edit")
        if made:
            other = member("owner")
            other.press(other.open(f"/exceptions/rules/{rule.id}/edit"), "Save", name="Guides")
        page = admin.press(admin.press(mine, "Preview", files="guides/**"), "Save")

        assert page.status == (412 if made else 200)

    @pytest.mark.parametrize("button", ["Switch off", "Delete Docs"])
    def test_button_does_nothing(self, member: Enter, acme: Scene, button: str) -> None:
        rule = factories.exception_rule(acme.session, acme.organization, name="Docs")
        admin, other = member("admin"), member("owner")
        mine = admin.open(f"/exceptions/rules/{rule.id}")
        other.press(other.open(f"/exceptions/rules/{rule.id}/edit"), "Save", files="guides/**")
        page = admin.press(mine, button)

        assert page.status == 412
        assert "Someone has changed this rule since you opened the page" in page.text
        assert "only files that match guides/**" in words(page)
        assert columns_of(acme.session, rule.id)["enabled"]
        assert admin.press(page, button).status == 200

    def test_deletion_that_is_sent_twice_is_one(self, member: Enter, acme: Scene) -> None:
        rule = factories.exception_rule(acme.session, acme.organization, name="Docs")
        admin = member("admin")
        page = admin.open(f"/exceptions/rules/{rule.id}")

        for _ in range(2):
            assert "The rule has been deleted." in admin.press(page, "Delete Docs").text
        assert admin.open(f"/exceptions/rules/{rule.id}").status == 404
