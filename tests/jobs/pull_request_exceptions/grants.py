"""Exceptions at GitHub in tests: how they are granted, and what is shown and recorded of them."""

from datetime import datetime
from typing import Any

from sqlalchemy import select

from models.freezes import Freeze
from models.pull_requests import PullRequest as PullRow
from models.repositories import WatchedBranch
from services.core.unit_of_work import SYSTEM_CALLER
from tests import factories
from tests.harness.github_harness import Harness
from tools.fake_github.model.records import PullRequest

LINUS = {"type": "user", "id": "usr_linus", "name": "Linus"}


def row_of(harness: Harness, number: int, repository: str = "acme/web") -> PullRow:
    harness.session.expire_all()
    repository_id = harness.branches[repository].repository_id
    return harness.session.scalars(
        select(PullRow).where(PullRow.repository_id == repository_id, PullRow.number == number)
    ).one()


def grant(harness: Harness, freeze_id: str, number: int, *, on: WatchedBranch | None = None, **columns: Any) -> str:
    """Let a pull request past a freeze; GitHub does not show it yet."""
    branch = on or harness.branches["acme/web"]
    freeze = harness.session.get_one(Freeze, freeze_id)
    given = {"decided_by": LINUS, **columns}
    made = factories.exception(harness.session, freeze, row_of(harness, number), branch, **given)
    harness.session.commit()
    notify(harness)
    return made.id


def notify(harness: Harness) -> None:
    """Say that the verdicts may have changed, as every change of an exception does."""
    harness.make_due("wanted_generation = nextval('generations')")


def check(harness: Harness, pull: PullRequest) -> dict[str, Any]:
    """Return what GitHub shows on the pull request's head: conclusion, title, summary, buttons, link."""
    world = harness.fake_github.world
    run = world.newest_run(pull.repository_id, pull.head_sha, "change-freeze/main", harness.fake_github.app_id)
    assert run is not None
    return {"conclusion": run.conclusion, **run.output, "actions": run.actions, "details_url": run.details_url}


def now(harness: Harness) -> datetime:
    with harness.jobs.open(SYSTEM_CALLER) as uow:
        return uow.now


def row(harness: Harness, exception_id: str) -> dict[str, Any]:
    [found] = harness.sql("SELECT * FROM exceptions WHERE id = :id", id=exception_id)
    return dict(found._mapping)


def audited(harness: Harness, action: str) -> list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    query = "SELECT actor, target, details FROM audit_entries WHERE action = :action ORDER BY at, id"
    return [(found[0], found[1], found[2]) for found in harness.sql(query, action=f"exception.{action}")]
