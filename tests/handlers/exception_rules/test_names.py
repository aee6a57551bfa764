"""Whom a rule of exceptions names: GitHub is asked when it is saved, and the rule keeps the ids."""

from typing import Any

import pytest

from tests.handlers.callers import Caller, Tenant, refusal
from tests.handlers.exception_rules.rules import DOCS, EVERYWHERE, RULES, WANTED, new_rule, path_of, writable
from tools.fake_github import FakeGitHub

pytestmark = pytest.mark.usefixtures("web")
LABEL = {"label": {"name": "hotfix", "setBy": {"accounts": ["captain"], "teams": ["acme/captains"]}}}
FROM_BOT = {"author": {"accounts": ["renovate[bot]"]}}
APPROVED = {"approvals": {"fromTeam": "acme/captains", "atLeast": 1}}
ALLOW = {"any": [LABEL, {"all": [APPROVED, FROM_BOT]}]}


@pytest.fixture
def captains(acme: Tenant) -> int:
    """Return the id of the team acme/captains, in which captain is; renovate[bot] has an account as well."""
    acme.host.world.add_account("renovate[bot]", "Bot")
    return acme.host.organization("acme").team_named("captains", "captain")


def id_of(acme: Tenant, login: str) -> int:
    return acme.host.world.logins[login].id


def problems(answer: Any) -> dict[str, str]:
    error = refusal(answer, 422, "validation_failed")
    return {row["path"]: row["message"] for row in error["details"]}


def test_rule_shows_whom_its_names_meant(acme: Tenant, admin: Caller, captains: int) -> None:
    made = new_rule(admin, allow=ALLOW)

    assert made["allow"] == ALLOW
    assert made["identities"] == [
        {"kind": "account", "name": "captain", "id": id_of(acme, "captain")},
        {"kind": "account", "name": "renovate[bot]", "id": id_of(acme, "renovate[bot]")},
        {"kind": "team", "name": "acme/captains", "id": captains},
    ]


@pytest.mark.usefixtures("captains")
def test_every_unknown_name_is_named_with_its_place(acme: Tenant, admin: Caller, fake_github: FakeGitHub) -> None:
    acme.installation.permissions = {"members": "read"}
    acme.session.commit()
    people = {"accounts": ["captain", "nobody"], "teams": ["acme/gone", "other/team", "acme/captains"]}
    allow = {
        "any": [
            {"label": {"name": "hotfix", "setBy": people}},
            {"all": [APPROVED, {"author": {"accounts": ["nobody"]}}]},
        ]
    }

    found = problems(admin.post(RULES, {**WANTED, "allow": allow, "appliesTo": {**EVERYWHERE, "freezes": "schedules"}}))

    assert found == {
        "/appliesTo/scheduleIds": "is required with schedules",
        "/allow/any/0/label/setBy/accounts/1": "'nobody' is no account at GitHub",
        "/allow/any/0/label/setBy/teams/0": "'acme/gone' is no team of acme",
        "/allow/any/0/label/setBy/teams/1": (
            "'other/team' cannot be read: the GitHub App has no active installation on other"
        ),
        "/allow/any/1/all/1/author/accounts/0": "'nobody' is no account at GitHub",
    }


@pytest.mark.usefixtures("captains")
def test_missing_permission_is_named_at_the_team(acme: Tenant, admin: Caller, fake_github: FakeGitHub) -> None:
    del fake_github.world.installations[acme.installation.id].permissions["members"]

    found = problems(admin.post(RULES, {**WANTED, "allow": {"any": [APPROVED]}}))

    assert found == {
        "/allow/any/0/approvals/fromTeam": (
            "'acme/captains' cannot be read: the GitHub App lacks the permission members: read on acme"
        )
    }


@pytest.mark.usefixtures("captains")
def test_github_is_asked_only_for_conditions_that_change(acme: Tenant, admin: Caller, fake_github: FakeGitHub) -> None:
    made = new_rule(admin, allow=ALLOW)
    fake_github.faults.add("error", "GET /users/captain", status=502)

    refusal(admin.post(RULES, {**WANTED, "name": "Another", "allow": ALLOW}), 502, "github_unavailable")
    refusal(admin.patch(path_of(made), {"allow": {"any": [LABEL]}}), 502, "github_unavailable")
    changed = admin.patch(path_of(made), {**writable(made), "name": "Captains"})

    assert changed.status_code == 200, changed.text
    assert (changed.json()["name"], changed.json()["identities"]) == ("Captains", made["identities"])
    assert acme.audit() == ["exception_rule.created", "exception_rule.changed"]


@pytest.mark.usefixtures("captains")
def test_name_taken_over_is_asked_for_again_with_the_conditions(
    acme: Tenant, admin: Caller, fake_github: FakeGitHub
) -> None:
    made = new_rule(admin, allow={"any": [FROM_BOT, DOCS]})
    del fake_github.world.logins["renovate[bot]"]
    taken = fake_github.world.add_account("renovate[bot]", "Bot").id

    same = admin.patch(path_of(made), writable(made)).json()
    changed = admin.patch(path_of(made), {"allow": {"any": [FROM_BOT]}}).json()

    assert same["identities"] == made["identities"]
    assert [row["id"] for row in changed["identities"]] == [taken]


def test_rule_that_names_nobody_needs_no_installation(acme: Tenant, admin: Caller) -> None:
    acme.installation.state = "suspended"
    acme.session.commit()

    new_rule(admin)

    refusal(admin.post(RULES, {**WANTED, "name": "Bots", "allow": {"any": [FROM_BOT]}}), 409, "installation_suspended")
