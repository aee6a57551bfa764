"""Pages of the dashboard: an organisation with repositories, and members who visit.

- `acme`: an organisation on the business plan with `acme/web` and `acme/api`, each with a watched branch that blocks.
- `member(role)`: a person with a browser, signed in, a member of it with this role; `enter(role)` has one in Chromium.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from sqlalchemy.orm import Session

from models.organizations import Organization, User
from models.repositories import Repository, WatchedBranch
from rules.rulesets.app_permissions import NEEDED
from tests import factories
from tests.harness.browser import Browser
from tests.web.people.conftest import SignedIn
from tests.web.people.forms import Page, Person
from tests.web.people.in_chromium import sign_in

Enter = Callable[[str], Person]
EnterBrowser = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Scene:
    """An organisation with two watched branches."""

    session: Session
    organization: Organization
    repositories: tuple[Repository, Repository]
    web: WatchedBranch
    api: WatchedBranch


@pytest.fixture
def acme(session: Session) -> Scene:
    organization = factories.organization(session, "Acme")
    factories.installation(session, organization, permissions=dict(NEEDED))
    web, api = (factories.repository(session, organization, f"acme/{name}") for name in ("web", "api"))
    branches = [factories.branch(session, each) for each in (web, api)]
    for branch in branches:
        factories.branch_enforcement(session, branch)
    return Scene(session, organization, (web, api), *branches)


@pytest.fixture
def member(acme: Scene, account: Callable[[str], User], signed_in: SignedIn) -> Enter:
    def enter(role: str) -> Person:
        user = account(role.title())
        factories.membership(acme.session, acme.organization, user, role)
        return signed_in(user, acme.organization)

    return enter


@pytest.fixture
def enter(browser: Browser, site: str, acme: Scene, account: Callable[[str], User]) -> Iterator[EnterBrowser]:
    """Sign a member in, in Chromium: `enter("viewer")`; scripts run from then on."""

    def enter(role: str) -> None:
        factories.membership(acme.session, acme.organization, account(role.title()), role)
        sign_in(browser, site, f"{role}@example.test")
        browser.run_scripts(enabled=True)

    yield enter
    browser.run_scripts(enabled=False)
    browser.prefer("light")


def words(page: Page) -> str:
    """Return the text of a page with single spaces."""
    return " ".join(page.text.split())
