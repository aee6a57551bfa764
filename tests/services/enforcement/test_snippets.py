"""The snippets of a branch, as they follow from what is watched where."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.orm import Session

from integrations.github import GitHub, GitHubSettings
from models.enforcement import BranchEnforcement
from models.organizations import Organization
from models.repositories import WatchedBranch
from rules.errors import ServiceError
from services.core.ports import Ports
from services.core.rotated_secrets import CursorSecret
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from services.enforcement.snippets import snippets
from tests import factories
from tests.harness.app_key import AppKey
from tests.harness.clock import MovableClock
from tests.harness.wakeups import RecordedWakeups
from tests.services.conftest import ADA, UnitOfWorkOpener

APP_ID = 4711
API = "https://ghe.acme.test/api/v3"


@pytest.fixture
def uow_factory(engine: Engine, clock: MovableClock, wakeups: RecordedWakeups, app_key: AppKey) -> UnitOfWorkFactory:
    settings = GitHubSettings(API, f"{API}/graphql", APP_ID, "change-freeze", app_key.private, "no secret")
    return UnitOfWorkFactory(engine, clock, wakeups, Ports(GitHub(settings), CursorSecret(b"a secret of the tests")))


def content(
    uow: UnitOfWork, branch: WatchedBranch, tool: str, level: str, purpose: str, check: str | None = None
) -> str:
    shown = snippets(uow, branch.id)["snippets"]
    wanted = (tool, level, purpose, check or branch.check_name)
    [found] = [each for each in shown if (each["tool"], each["level"], each["purpose"], each["check_name"]) == wanted]
    return str(found["content"])


def ruleset(
    uow: UnitOfWork, branch: WatchedBranch, level: str = "repository", check: str | None = None
) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(content(uow, branch, "ruleset_json", level, "enable", check))
    return parsed


def test_snippets_of_a_branch_require_its_check(
    unit_of: UnitOfWorkOpener, session: Session, acme: Organization
) -> None:
    branch = factories.watched(session, acme)
    session.commit()
    with unit_of(acme) as uow:
        shown = snippets(uow, branch.id)
        rule = ruleset(uow, branch)["rules"][0]["parameters"]
    assert (shown["branch_id"], shown["check_name"]) == (branch.id, "change-freeze/main")
    assert len(shown["snippets"]) == 24
    assert set(shown["snippets"][0]) == {"tool", "level", "purpose", "language", "title", "content", "check_name"}
    assert rule["required_status_checks"] == [{"context": "change-freeze/main", "integration_id": APP_ID}]


def test_snippets_address_the_configured_github(
    unit_of: UnitOfWorkOpener, session: Session, acme: Organization
) -> None:
    branch = factories.watched(session, acme)
    session.commit()
    with unit_of(acme) as uow:
        assert f" {API}/repos/acme/web/rulesets " in content(uow, branch, "curl", "repository", "enable")
        assert f" {API}/orgs/acme/rulesets " in content(uow, branch, "curl", "organization", "enable")
        assert " --hostname ghe.acme.test " in content(uow, branch, "gh", "repository", "enable")


def test_organization_snippet_covers_repositories_that_watch_the_pattern(
    unit_of: UnitOfWorkOpener, session: Session, acme: Organization
) -> None:
    branch = factories.watched(session, acme, "acme/web", "release/1")
    web = factories.repository(session, acme, "acme/app", auto_watch=["release/*"])
    one, two = (factories.repository(session, acme, f"acme/{name}") for name in ("one", "two"))
    by_glob = factories.branch(session, web, "release/1")
    for name in ("release/1", "release/2"):
        factories.branch(session, one, name)
    factories.branch(session, two, "release/1", unwatched_at=factories.now())
    factories.repository(session, acme, "acme/off", enabled=False, auto_watch=["release/*"])
    waiting = factories.repository(session, acme, "acme/waiting", auto_watch=["hotfix/*", "release/*"])
    other = factories.organization(session, "Globex")
    factories.watched(session, other, "acme/web", "release/1")
    session.commit()
    with unit_of(acme) as uow:
        by_name = ruleset(uow, branch, "organization")["conditions"]
        shared = ruleset(uow, by_glob, "organization", "change-freeze/release/*")["conditions"]
        alone = ruleset(uow, by_glob)["conditions"]["ref_name"]
    own = session.get_one(type(web), branch.repository_id).github_id
    assert by_name["repository_id"]["repository_ids"] == sorted([own, one.github_id, web.github_id])
    assert shared["repository_id"]["repository_ids"] == sorted([web.github_id, waiting.github_id])
    assert shared["ref_name"]["include"] == ["refs/heads/release/*"]
    assert alone == {"include": ["refs/heads/release/1"], "exclude": []}


def test_snippet_of_a_pattern_excludes_branches_without_its_check(
    unit_of: UnitOfWorkOpener, session: Session, acme: Organization
) -> None:
    web = factories.repository(session, acme, auto_watch=["hotfix/*", "**", "!wip/**"])
    alike = factories.repository(session, acme, "acme/api", auto_watch=["hotfix/*", "**", "!wip/**"])
    factories.branch(session, alike, "main", pattern_check_name=None)
    simpler = factories.repository(session, acme, "acme/docs", auto_watch=["**"])
    factories.branch(session, web, "main", pattern_check_name=None)
    branch = factories.branch(session, web, "next")
    session.commit()
    with unit_of(acme) as uow:
        names = ruleset(uow, branch, check="change-freeze/**")["conditions"]["ref_name"]
        conditions = ruleset(uow, branch, "organization", "change-freeze/**")["conditions"]
        together = conditions["repository_id"]["repository_ids"]
    assert names["exclude"] == ["refs/heads/hotfix/*", "refs/heads/main", "refs/heads/wip/**/*"]
    assert together == sorted([web.github_id, alike.github_id])
    assert simpler.github_id not in together


def test_break_glass_snippet_disables_the_observed_ruleset(
    unit_of: UnitOfWorkOpener, session: Session, acme: Organization
) -> None:
    branch = factories.watched(session, acme)
    seen = {"id": 77, "name": "Main is precious", "enforcement": "active"}
    session.add(BranchEnforcement(branch_id=branch.id, organization_id=acme.id, ruleset=seen))
    session.commit()
    with unit_of(acme) as uow:
        assert 'select(.name == "Main is precious")' in content(uow, branch, "gh", "repository", "disable")
        assert ruleset(uow, branch)["name"] == "Change freeze: main"


@contextmanager
def _counted(engine: Engine) -> Iterator[list[str]]:
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        statements.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    yield statements
    event.remove(engine, "before_cursor_execute", note)


def test_snippets_take_constant_queries_for_many_repositories(
    unit_of: UnitOfWorkOpener, session: Session, acme: Organization, engine: Engine
) -> None:
    rows = [factories.repository(session, acme, f"acme/r{number}", auto_watch=["**"]) for number in range(30)]
    branch = factories.branch(session, rows[0], "main")
    session.commit()
    with unit_of(acme) as uow, _counted(engine) as statements:
        snippets(uow, branch.id)
    assert len(statements) <= 8


def test_snippets_are_unavailable_without_an_app(
    engine: Engine, clock: MovableClock, wakeups: RecordedWakeups, session: Session, acme: Organization
) -> None:
    branch = factories.watched(session, acme)
    session.commit()
    opened: AbstractContextManager[UnitOfWork] = UnitOfWorkFactory(engine, clock, wakeups).open(
        Caller(acme.id, ADA, "dashboard")
    )
    with opened as uow, pytest.raises(ServiceError) as refused:
        snippets(uow, branch.id)
    assert refused.value.code == "github_unavailable"
