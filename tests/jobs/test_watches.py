"""Ceasing to watch leaves no check that blocks for ever; beginning to watch judges what is open already."""

from services.repositories.enablement import disable, enable
from services.repositories.watches import unwatch, watch_branch
from tests.harness.github_harness import Builder, Harness


def test_branch_that_is_no_longer_watched_can_be_merged_into(harness: Harness, build: Builder) -> None:
    [pull] = build("web", pulls=1)
    harness.run_until_idle()
    with harness._unit() as uow:
        unwatch(uow, harness.branches["acme/web"].id)
    harness.run_until_idle()
    later = harness.fake_github.organization("acme").repository("web").pull_request(base="main")
    harness.make_due()
    harness.run_until_idle()
    assert harness.conclusions() == {f"acme/web#{number}": "success" for number in (pull.number, later.number)}
    assert harness.merge("acme/web", pull.number).status_code == 200


def test_enabled_repository_joins_the_running_freeze(harness: Harness, build: Builder) -> None:
    pulls = build("web", "api", pulls=1)
    with harness._unit() as uow:
        disable(uow, ["acme/web"])
    freeze = harness.freeze()
    harness.run_until_idle()
    assert harness.conclusions() == {"acme/web#1": "success", "acme/api#1": "failure"}
    with harness._unit() as uow:
        enable(uow, ["acme/web"])
    harness.run_until_idle()
    assert set(harness.conclusions().values()) == {"failure"}
    assert harness.merge("acme/web", pulls[0].number).status_code == 405
    harness.lift(freeze)
    harness.run_until_idle()
    assert harness.merge("acme/web", pulls[0].number).status_code == 200


def test_branch_that_is_watched_again_keeps_its_history(harness: Harness, build: Builder) -> None:
    [pull] = build("web", pulls=1)
    harness.run_until_idle()
    branch = harness.branches["acme/web"]
    with harness._unit() as uow:
        unwatch(uow, branch.id)
    with harness._unit() as uow:
        assert watch_branch(uow, "acme/web", "main").id == branch.id
    harness.freeze()
    harness.run_until_idle()
    assert harness.merge("acme/web", pull.number).status_code == 405
