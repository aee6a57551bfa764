"""A repository that is deleted and made again, renamed, or moved away and back is frozen from its first comparison."""

from typing import Any

import pytest

from services.core.unit_of_work import GITHUB_CALLER
from services.installations.sync_requests import request_comparison
from services.repository_sync.sync import refresh_repository, sync_due
from tests.factories.plans import change_plan
from tests.harness.github_harness import Harness
from tests.jobs.frozen_branches.requests import creates, deletes, named, settle
from tests.jobs.setup.requests import add
from tools.fake_github.model import repositories as at_host
from tools.fake_github.model.records import Repository
from tools.fake_github.model.world import Actor

BRANCHES = "SELECT b.name, r.github_id FROM watched_branches b JOIN repositories r ON r.id = b.repository_id"


def record(harness: Harness, name: str = "web") -> Repository:
    return harness.fake_github.organization("acme").repository(name).record


def person(harness: Harness) -> Actor:
    return Actor(harness.fake_github.maintainer)


def sync(harness: Harness) -> None:
    """Compare the repositories with GitHub, as after a webhook."""
    with harness.jobs.open(GITHUB_CALLER) as uow:
        request_comparison(uow, list(harness.fake_github.world.installations))
    while sync_due(harness.jobs, harness.github):
        pass


def make_again(harness: Harness, *branches: str) -> Repository:
    """Delete acme/web at GitHub, and make it again."""
    former = harness.record()
    harness.act(at_host.delete, former)
    made = harness.fake_github.organization("acme").repository("web", branches=branches).record
    assert made.id != former.id
    return made


def of(harness: Harness, github_id: int) -> Any:
    """Return a repository as it is stored, with the names of its frozen branches."""
    [found] = harness.sql("SELECT * FROM repositories WHERE github_id = :id", id=github_id)
    frozen = harness.sql(
        "SELECT DISTINCT b.name FROM freeze_targets t JOIN watched_branches b ON b.id = t.branch_id "
        "WHERE b.repository_id = :id AND t.operation = 'apply' ORDER BY b.name",
        id=found.id,
    )
    return found, [row.name for row in frozen]


@pytest.mark.parametrize("known_at_once", [False, True])
def test_repository_that_is_made_again_is_frozen(web: Harness, *, known_at_once: bool) -> None:
    web.sql("UPDATE repositories SET auto_watch = '{release/*}'")
    web.freeze()
    settle(web)
    former = web.record()
    made = make_again(web, "next", "release/1")
    if known_at_once:  # by the webhook of the deletion
        refresh_repository(web.jobs, web.github, former.id)
    sync(web)
    repository, frozen = of(web, made.id)
    assert (repository.enabled, repository.auto_watch) == (True, ["release/*"])
    assert frozen == ["main", "next", "old", "release/1"]
    pull = web.fake_github.organization("acme").repository("web").pull_request(base="main")
    settle(web)
    assert web.conclusions() == {f"acme/web#{pull.number}": "failure"}
    entries = web.sql("SELECT source, details FROM audit_entries WHERE action = 'repository.enabled'")
    assert [(each.source, each.details["after"]["watched"]) for each in entries] == [
        ("code_host", ["main", "next", "old"])
    ]


@pytest.mark.parametrize("told", [False, True])
def test_repository_that_gets_the_name_of_a_deleted_one_is_frozen(web: Harness, *, told: bool) -> None:
    web.freeze()
    settle(web)
    other = web.fake_github.organization("acme").repository("site").record
    sync(web)
    assert of(web, other.id)[0].enabled is False
    web.act(at_host.delete, web.record())
    web.act(at_host.rename, other, "web")
    if told:  # by the webhook of the new name, before the deletion is known
        refresh_repository(web.jobs, web.github, other.id)
        while sync_due(web.jobs, web.github):
            pass
    else:
        sync(web)
    repository, frozen = of(web, other.id)
    assert (repository.enabled, frozen) == (True, ["main", "next", "old"])


def test_repository_that_is_made_again_without_a_freeze_is_not_enabled(web: Harness) -> None:
    web.lift(web.freeze())
    made = make_again(web)
    sync(web)
    assert of(web, made.id)[0].enabled is False


@pytest.mark.parametrize("why", ["disabled", "other name", "named scope"])
def test_other_new_repository_is_not_enabled(web: Harness, why: str) -> None:
    if why == "disabled":
        web.sql("UPDATE repositories SET enabled = false")
    scope = {"type": "repositories", "repositories": ["acme/web"]} if why == "named scope" else None
    if why != "disabled":
        web.freeze(scope)
    made = make_again(web) if why != "other name" else web.fake_github.organization("acme").repository("site").record
    sync(web)
    assert of(web, made.id)[0].enabled is False


def test_repository_that_is_made_again_stays_disabled_beyond_the_plan(web: Harness) -> None:
    web.freeze()
    change_plan(web.session, web.organization, "free")
    repository = web.sql("SELECT id, organization_id FROM repositories")[0]
    web.sql(
        "INSERT INTO repositories (id, organization_id, installation_id, github_id, node_id, owner, name, "
        "default_branch, private, created_at, synced_at, enabled) SELECT 'rep_full', organization_id, installation_id, "
        "-1, 'R_full', 'acme', 'full', 'main', true, now(), now(), true FROM repositories WHERE id = :id",
        id=repository.id,
    )
    web.sql(
        "INSERT INTO watched_branches (id, organization_id, repository_id, name, check_name, created_at) "
        "SELECT 'wbr_full_' || n, :organization, 'rep_full', 'b' || n, 'change-freeze/b' || n, now() "
        "FROM generate_series(1, 25) n",
        organization=repository.organization_id,
    )
    full = web.fake_github.organization("acme").repository("full").record
    web.sql("UPDATE repositories SET github_id = :id WHERE id = 'rep_full'", id=full.id)
    made = make_again(web)
    sync(web)
    stored, frozen = of(web, made.id)
    assert (stored.enabled, frozen) == (False, [])
    assert web.sql("SELECT id FROM audit_entries WHERE action = 'repository.enabled'") == []


def test_renamed_repository_stays_frozen(web: Harness) -> None:
    web.freeze()
    settle(web)
    web.act(at_host.rename, web.record(), "site")
    sync(web)
    settle(web)
    stored, frozen = of(web, web.record("acme/site").id)
    assert (stored.name, frozen) == ("site", ["main", "next", "old"])
    assert named(web) == ["main", "next", "old"]
    assert web.person("DELETE", "/repos/acme/site/git/refs/heads/next").status_code == 422


@pytest.mark.parametrize("starts", ["before", "while it is away"])
def test_repository_that_moved_away_and_back_is_frozen(web: Harness, starts: str) -> None:
    add(web, "api", pulls=0)
    if starts == "before":
        web.freeze()
    moved = web.record()
    web.act(at_host.transfer, moved, web.fake_github.organization("globex").account)
    sync(web)
    if starts != "before":
        web.freeze()
        assert of(web, moved.id)[1] == []
    web.act(at_host.transfer, moved, web.fake_github.organization("acme").account)
    web.installed.repository_ids = [*web.installed.repository_ids, moved.id]
    sync(web)
    settle(web)
    assert of(web, moved.id)[1] == ["main", "next", "old"]
    assert (deletes(web, "next"), creates(web, "newer")) == (422, 201)
