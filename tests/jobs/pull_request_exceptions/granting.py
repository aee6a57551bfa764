"""Exceptions at the code host in tests: how they are granted, and what is shown and recorded of them."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select

from models.freezes import Freeze
from models.pull_requests import PullRequest as PullRow
from models.repositories import WatchedBranch
from services.core.unit_of_work import SYSTEM_CALLER
from tests import factories
from tests.jobs.conftest import Town
from tests.services.conftest import MovedClock
from tools.fake_github.model.records import PullRequest

LINUS = {"type": "user", "id": "usr_linus", "name": "Linus"}


def row_of(town: Town, number: int, repository: str = "acme/web") -> PullRow:
    town.session.expire_all()
    repository_id = town.branches[repository].repository_id
    return town.session.scalars(
        select(PullRow).where(PullRow.repository_id == repository_id, PullRow.number == number)
    ).one()


def grant(town: Town, freeze_id: str, number: int, *, on: WatchedBranch | None = None, **columns: Any) -> str:
    """Let a pull request past a freeze; the code host is not told yet."""
    branch = on or town.branches["acme/web"]
    freeze = town.session.get_one(Freeze, freeze_id)
    given = {"decided_by": LINUS, **columns}
    made = factories.exception(town.session, freeze, row_of(town, number), branch, **given)
    town.session.commit()
    tell(town)
    return made.id


def tell(town: Town) -> None:
    """Say that the verdicts may have changed, as every change of an exception does."""
    town.make_due("wanted_generation = wanted_generation + 1")


def check(town: Town, pull: PullRequest) -> dict[str, Any]:
    """Return what the code host shows on the pull request's head: conclusion, title, summary, buttons."""
    world = town.host.world
    run = world.newest_run(pull.repository_id, pull.head_sha, "change-freeze/main", town.host.app_id)
    assert run is not None
    return {"conclusion": run.conclusion, **run.output, "actions": run.actions}


def now(town: Town) -> datetime:
    with town.jobs.open(SYSTEM_CALLER) as uow:
        return uow.now


def pass_by(town: Town, **time: float) -> None:
    clock = town.jobs.clock
    assert isinstance(clock, MovedClock)
    clock.ahead += timedelta(**time)


def row(town: Town, exception_id: str) -> dict[str, Any]:
    [found] = town.sql("SELECT * FROM exceptions WHERE id = :id", id=exception_id)
    return dict(found._mapping)


def told(town: Town, action: str) -> list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    query = "SELECT actor, target, details FROM audit_entries WHERE action = :action ORDER BY at, id"
    return [(found[0], found[1], found[2]) for found in town.sql(query, action=f"exception.{action}")]
