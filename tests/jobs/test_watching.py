"""Ceasing to watch leaves no check that blocks for ever; beginning to watch judges what is open already."""

from services.repositories.enabling import disable, enable
from services.repositories.watching import unwatch, watch_branch
from tests.jobs.conftest import Builder, Town


def test_branch_that_is_no_longer_watched_can_be_merged_into(town: Town, build: Builder) -> None:
    [pull] = build("web", pulls=1)
    town.settle()
    with town._unit() as uow:
        unwatch(uow, town.branches["acme/web"].id)
    town.settle()
    later = town.host.organization("acme").repository("web").pull_request(base="main")
    town.make_due()
    town.settle()
    assert town.conclusions() == {f"acme/web#{number}": "success" for number in (pull.number, later.number)}
    assert town.merge("acme/web", pull.number).status_code == 200


def test_enabled_repository_joins_the_running_freeze(town: Town, build: Builder) -> None:
    pulls = build("web", "api", pulls=1)
    with town._unit() as uow:
        disable(uow, ["acme/web"])
    freeze = town.freeze()
    town.settle()
    assert town.conclusions() == {"acme/web#1": "success", "acme/api#1": "failure"}
    with town._unit() as uow:
        enable(uow, ["acme/web"])
    town.settle()
    assert set(town.conclusions().values()) == {"failure"}
    assert town.merge("acme/web", pulls[0].number).status_code == 405
    town.lift(freeze)
    town.settle()
    assert town.merge("acme/web", pulls[0].number).status_code == 200


def test_branch_that_is_watched_during_a_freeze_is_blocked(town: Town, build: Builder) -> None:
    build("web", pulls=1)
    web = town.host.organization("acme").repository("web").branch("release/1")
    web.requires("change-freeze/release/1", "release/1")
    pull = web.pull_request(base="release/1")
    freeze = town.freeze()
    with town._unit() as uow:
        watch_branch(uow, "acme/web", "release/1")
    town.settle()
    assert town.conclusions()[f"acme/web#{pull.number}"] == "failure"
    assert town.merge("acme/web", pull.number).status_code == 405
    town.lift(freeze)
    town.settle()
    assert town.merge("acme/web", pull.number).status_code == 200


def test_branch_that_is_watched_again_keeps_its_history(town: Town, build: Builder) -> None:
    [pull] = build("web", pulls=1)
    town.settle()
    branch = town.branches["acme/web"]
    with town._unit() as uow:
        unwatch(uow, branch.id)
    with town._unit() as uow:
        assert watch_branch(uow, "acme/web", "main").id == branch.id
    town.freeze()
    town.settle()
    assert town.merge("acme/web", pull.number).status_code == 405
