"""A repository moves, the App is uninstalled, and a freeze is extended or reaches its end, while a stop is on."""

from datetime import timedelta

import pytest

from services.freezes.extension import extend
from services.maintenance.tasks import end_freezes
from tests.harness.desk import Desk
from tests.harness.github_harness import Harness
from tests.harness.people import uninstall
from tests.jobs.stops.requests import branch, required, stop, ways
from tests.jobs.stops.truths import assert_honest, come_right
from tools.fake_github.model import repositories


@pytest.mark.parametrize("lifts", [False, True])
def test_stop_of_a_repository_that_moved_away_ends_when_it_is_back(web: Harness, *, lifts: bool) -> None:
    desk = Desk.of(web)
    desk.webhook_queue.take()
    freeze = web.freeze()
    stop(web)
    moved = web.record()
    for owner in ("globex", "acme"):
        web.act(repositories.transfer, moved, web.fake_github.organization(owner).account)
        if owner == "acme":
            web.installed.repository_ids = [*web.installed.repository_ids, moved.id]
        desk.webhook_queue.run()
        stop(web)
        if lifts and owner == "globex":
            web.lift(freeze)
    come_right(web)


def test_stop_ends_after_the_app_was_uninstalled_and_is_installed_again(web: Harness) -> None:
    desk = Desk.of(web)
    desk.webhook_queue.take()
    web.freeze()
    stop(web)
    uninstall(web)
    desk.webhook_queue.run()
    stop(web)
    assert len(required(web)) == 1
    desk.claim(desk.install())
    desk.webhook_queue.run()
    come_right(web)
    assert ways(web) >= {"merge", "push"}


def test_stop_ends_when_the_freeze_reaches_its_end(web: Harness) -> None:
    desk = Desk.of(web)
    extended, over = web.freeze(branch(web)), web.freeze(branch(web, "next"))
    for freeze, length in ((extended, timedelta(hours=2)), (over, timedelta(minutes=1))):
        with web.uow_factory.open(desk.caller) as uow:
            extend(uow, freeze, uow.now + length)
    stop(web)
    assert ways(web) == ways(web, "next") == set()
    web.pass_time(minutes=1)
    end_freezes(web.jobs)
    assert_honest(web)
    stop(web)
    assert ways(web) == set()
    assert ways(web, "next") >= {"merge", "push"}
    come_right(web)
