"""After a restore of the database, stops of which nothing is recorded any more end, and are said until they do."""

from datetime import timedelta

import pytest

from services.maintenance.resync import resync
from tests.harness.blocking_surfaces import attention
from tests.harness.github_harness import Harness
from tests.harness.restores import declare_restored, show_and_confirm
from tests.jobs.probes.requests import look
from tests.jobs.stops.requests import (
    MANY,
    RULESET_DELAY,
    above,
    branch,
    open_repositories,
    required,
    required_above,
    stop,
    stop_from,
    ways,
)
from tests.jobs.stops.truths import MAX_SECONDS, come_right


def restore(harness: Harness) -> None:
    """Put back a backup from before the freezes: as nothing was recorded of them, and of their rulesets."""
    harness.sql("DELETE FROM freeze_targets")
    harness.sql("DELETE FROM freezes")
    harness.sql("DELETE FROM frozen_branch_rulesets")
    harness.sql("UPDATE branch_enforcement SET stop = NULL")
    declare_restored(harness)


def confirm(harness: Harness) -> None:
    show_and_confirm(harness)
    resync(harness.jobs, timedelta(hours=24))  # the urgent round that this begins


@pytest.mark.parametrize("read", ["before", "after"])
def test_stop_that_an_old_backup_does_not_have_ends_once_confirmed(web: Harness, read: str) -> None:
    web.freeze()
    stop(web)
    restore(web)
    if read == "before":
        look(web)
    stop(web)
    assert ways(web) == set()
    confirm(web)
    come_right(web)
    assert ways(web) >= {"merge", "push"}


def test_freeze_after_a_restore_does_not_use_the_lost_context(web: Harness) -> None:
    web.freeze()
    stop(web)
    [lost] = required(web)
    restore(web)
    confirm(web)
    web.freeze(branch(web))
    look(web)
    stop(web)
    [context] = required(web)
    assert context != lost
    come_right(web)


def test_lost_stop_is_said_where_nobody_has_authorised_rulesets(web: Harness) -> None:
    web.freeze()
    stop(web)
    restore(web)
    confirm(web)
    web.sql("UPDATE repositories SET rulesets_authorized_at = NULL, rulesets_authorized_by = NULL")
    look(web)
    assert stop(web) == 0
    web.pass_time(seconds=MAX_SECONDS + 1)
    assert ("stop_not_ended", "critical") in attention(web)
    assert len(required(web)) == 1


def test_stop_that_was_switched_off_a_moment_ago_is_no_lost_one(web: Harness) -> None:
    stop_from(web, delay=RULESET_DELAY)
    web.fake_github.settings.ruleset_delay_seconds = RULESET_DELAY.total_seconds()
    freeze = web.freeze()
    stop(web)
    web.pass_time(2 * RULESET_DELAY)
    stop(web)
    web.lift(freeze)
    stop(web)
    look(web)
    [(context,)] = web.sql("SELECT stop_context FROM frozen_branch_rulesets")
    assert context is None


def test_stop_of_an_organization_that_an_old_backup_does_not_have_ends(many: Harness) -> None:
    many.freeze()
    stop(many)
    restore(many)
    many.sql("DELETE FROM organization_stops")
    stop(many)
    assert len(required_above(many)) == 1
    confirm(many)
    come_right(many)
    assert [each.enforcement for each in above(many)] == ["disabled"]
    assert open_repositories(many) == list(MANY)
