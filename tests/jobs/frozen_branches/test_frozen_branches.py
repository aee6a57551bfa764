"""A frozen branch can be neither deleted nor created nor renamed; another one can."""

import pytest

from rules.rulesets.frozen_branches import NAME
from services.enforcement.frozen_branches import write_due
from tests.harness.github_harness import Harness
from tests.jobs.frozen_branches.requests import (
    creates,
    deletes,
    named,
    ours,
    renames,
    row,
    scope,
    settle,
    write,
)
from tests.jobs.probes.requests import look, permit
from tests.jobs.setup.requests import ask, work
from tools.fake_github.model import rulesets


def test_frozen_branch_cannot_be_deleted_created_or_renamed(web: Harness) -> None:
    freeze = web.freeze(scope(web, "next"))
    settle(web)
    assert named(web) == ["next"]
    assert (deletes(web, "next"), renames(web, "next", "elsewhere"), renames(web, "old", "newer")) == (422, 422, 201)
    web.lift(freeze)
    settle(web)
    assert named(web) == []
    assert (renames(web, "next", "elsewhere"), creates(web, "next"), deletes(web, "next")) == (201, 201, 204)


def test_frozen_branch_that_does_not_exist_cannot_be_created(web: Harness) -> None:
    assert deletes(web, "next") == 204
    web.freeze(scope(web, "next"))
    settle(web)
    assert (creates(web, "next"), renames(web, "old", "next"), creates(web, "other")) == (422, 422, 201)


def test_ruleset_names_a_branch_until_the_last_freeze_of_it_ends(web: Harness) -> None:
    first, second = web.freeze(scope(web, "next")), web.freeze({"type": "repositories", "repositories": ["acme/web"]})
    settle(web)
    assert named(web) == ["main", "next", "old"]
    web.lift(second)
    settle(web)
    assert named(web) == ["next"]
    web.lift(first)
    settle(web)
    assert named(web) == []


def test_next_freeze_uses_the_same_ruleset(web: Harness) -> None:
    web.lift(web.freeze())
    settle(web)
    assert ours(web) == []  # it was over before anything was written
    web.lift(web.freeze(scope(web, "next")))
    web.freeze(scope(web, "old"))
    settle(web)
    [ruleset] = ours(web)
    web.freeze(scope(web, "main"))
    settle(web)
    assert [each.id for each in ours(web)] == [ruleset.id]
    assert named(web) == ["main", "old"]


def test_each_change_of_the_ruleset_is_audited(web: Harness) -> None:
    freeze = web.freeze(scope(web, "next"))
    settle(web)
    web.lift(freeze)
    settle(web)
    query = "SELECT action, source, details FROM audit_entries WHERE target ->> 'name' = :name ORDER BY at, id"
    created, updated = web.sql(query, name=NAME)
    assert (created.action, updated.action) == ("ruleset.created", "ruleset.updated")
    assert {created.source, updated.source} == {"system"}
    assert (created.details["place"], created.details["before"]) == ("acme/web", None)
    assert updated.details["before"] == created.details["after"]
    assert updated.details["after"]["enforcement"] == "disabled"


def test_written_ruleset_is_read_back_by_probes_of_its_branches(web: Harness) -> None:
    web.freeze(scope(web, "next"))
    assert write(web) == 1
    due = "SELECT branch_id FROM branch_enforcement WHERE due_at IS NOT NULL"
    assert web.sql(due) == [(web.branches["acme/web:next"].id,)]


def test_branch_counts_as_open_before_rules_are_read_that_were_emptied(web: Harness) -> None:
    freeze = web.freeze(scope(web, "next"))
    settle(web)
    query = "SELECT e.open_ways FROM branch_enforcement e JOIN watched_branches b ON b.id = e.branch_id"
    query += " WHERE b.name = 'next'"
    assert web.sql(query) == [([],)]
    web.lift(freeze)
    assert write(web) == 1
    assert web.sql(query) == [(["deletion"],)]
    assert deletes(web, "next") == 204


def test_freeze_wakes_the_job_where_rulesets_are_written(web: Harness) -> None:
    woken = web.woken
    woken.clear()
    freeze = web.freeze()
    assert sorted(woken) == ["frozen_branches", "reconcile"]
    woken.clear()
    web.lift(freeze)
    assert sorted(woken) == ["frozen_branches", "reconcile"]


def test_nothing_is_asked_of_github_without_a_freeze(web: Harness) -> None:
    look(web)
    assert web.sql("SELECT * FROM frozen_branch_rulesets") == []
    assert not write_due(web.jobs, web.github)


@pytest.mark.parametrize("lacking", ["permission", "authorization", "archived"])
def test_ruleset_is_written_as_soon_as_the_app_may(web: Harness, lacking: str) -> None:
    permissions = dict(web.installed.permissions)
    if lacking == "permission":
        permit(web, "administration")
        look(web)
    elif lacking == "authorization":
        web.sql("UPDATE repositories SET rulesets_authorized_at = NULL")
    else:
        web.sql("UPDATE repositories SET archived = true")
    web.freeze()
    settle(web)
    assert ours(web) == []
    web.installed.permissions = permissions
    web.sql("UPDATE repositories SET rulesets_authorized_at = now(), archived = false")
    look(web)
    settle(web)
    assert named(web) == ["main", "next", "old"]


def test_ruleset_is_only_emptied_where_nobody_authorizes_it_any_more(web: Harness) -> None:
    freeze = web.freeze(scope(web, "next"))
    settle(web)
    web.sql("UPDATE repositories SET rulesets_authorized_at = NULL")
    later = web.freeze(scope(web, "old"))
    settle(web)
    assert named(web) == ["next"]
    web.lift(freeze)
    web.lift(later)
    settle(web)
    assert named(web) == []


def test_exact_rules_stay_as_they_are(web: Harness) -> None:
    web.freeze()
    settle(web)
    exact = [each for each in web.fake_github.world.rulesets.values() if each not in ours(web)]
    assert {rule["type"] for each in exact for rule in each.rules} == {"required_status_checks"}
    assert all(rule["parameters"]["do_not_enforce_on_create"] for each in exact for rule in each.rules)


def test_setup_neither_counts_nor_changes_the_ruleset(web: Harness) -> None:
    web.freeze()
    settle(web)
    [ruleset] = ours(web)
    changed_at = ruleset.updated_at
    assert {change["action"] for change in ask(web)["changes"]} == {"none"}
    work(web)
    assert (ours(web), ruleset.updated_at) == ([ruleset], changed_at)
    assert web.sql("SELECT count(*) FROM written_rulesets") == [(3,)]


def test_ruleset_for_which_there_is_no_room_is_tried_again_seldom(
    web: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rulesets, "MAX_RULESETS", 3)
    web.freeze()
    assert write(web) == 1
    assert (row(web).last_error_code, row(web).ruleset_id, row(web).writing) == ("github_rejected", None, None)
    soon = "SELECT count(*) FROM frozen_branch_rulesets WHERE due_at < clock_timestamp() + interval '20 minutes'"
    assert web.sql(soon) == [(0,)]
    monkeypatch.setattr(rulesets, "MAX_RULESETS", 4)
    look(web)
    settle(web)
    assert named(web) == ["main", "next", "old"]
    assert row(web).last_error_code is None
