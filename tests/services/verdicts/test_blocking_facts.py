"""The facts of blocking as rows give them: rules as read, checks as recorded, exceptions in force."""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from models.freezes import Freeze
from models.organizations import Organization
from models.repositories import Repository, WatchedBranch
from rules.freezes.blocking import MAX_READING_AGE, MAX_REPORT_DELAY, MAX_WRITE_DELAY, Blocking
from services.verdicts import blocking_facts
from services.verdicts.blocking import blocking_of_branches, count_by_freeze
from services.verdicts.lights import count_lights, statuses
from tests import factories
from tests.services.conftest import UnitOfWorkOpener

HEAD = "a" * 40


@pytest.fixture
def web(session: Session, acme: Organization) -> WatchedBranch:
    """Add a watched branch that a rule of ours protects, in every way."""
    branch = factories.watched(session, acme, "acme/web")
    factories.branch_enforcement(session, branch)
    session.commit()
    return branch


@dataclass(frozen=True, slots=True)
class Frozen:
    """A branch that a rule of ours protects, in every way, and a freeze of it."""

    session: Session
    acme: Organization
    unit_of: UnitOfWorkOpener
    web: WatchedBranch
    freeze: Freeze

    def blocking(self) -> Blocking:
        """Return what is known of the branch, which its freeze counts as well."""
        with self.unit_of(self.acme) as uow:
            found = blocking_of_branches(uow.session, [self.web.id], uow.now)[self.web.id].of_branch
            counts = count_by_freeze(uow.session, [self.freeze.id], uow.now)[self.freeze.id]
        assert dict(counts.states) == {found.state: 1}
        return found

    def change(self, statement: str, **values: Any) -> None:
        change(self.session, statement, **values)

    def succeed(self, **columns: Any) -> None:
        succeed(self.session, self.web, **columns)


@pytest.fixture
def frozen(session: Session, acme: Organization, unit_of: UnitOfWorkOpener, web: WatchedBranch) -> Frozen:
    freeze = factories.freeze(session, acme, [web])
    session.commit()
    return Frozen(session, acme, unit_of, web, freeze)


def change(session: Session, statement: str, **values: Any) -> None:
    session.execute(text(statement), values)
    session.commit()


def succeed(session: Session, web: WatchedBranch, **columns: Any) -> None:
    factories.head_check(session, web, HEAD, columns.pop("conclusion", "success"), **columns)
    session.commit()


def test_branch_with_a_rule_and_without_a_success_is_blocked(frozen: Frozen) -> None:
    assert frozen.blocking() == Blocking("blocked")


@pytest.mark.parametrize(
    ("statement", "state", "gap"),
    [
        ("DELETE FROM branch_enforcement", "unknown", "not_read"),
        ("UPDATE branch_enforcement SET rules_read_at = rules_read_at - interval '31 minutes'", "unknown", "outdated"),
        ("UPDATE branch_enforcement SET decisive_check = NULL", "not_blocked", "no_rule"),
        ("UPDATE branch_enforcement SET open_ways = '{deletion}'", "partly", "deletion"),
        ("UPDATE branch_enforcement SET open_ways = '{forgery}'", "partly", "forgery"),
        ("UPDATE installations SET state = 'removed'", "not_blocked", "removed"),
        ("UPDATE repositories SET removed_at = now()", "not_blocked", "removed"),
        ("UPDATE repositories SET archived = true", "blocked", None),
        ("UPDATE installations SET state = 'suspended'", "blocked", None),
    ],
)
def test_state_follows_from_what_was_read(frozen: Frozen, statement: str, state: str, gap: str | None) -> None:
    frozen.change(statement)
    found = frozen.blocking()
    assert (found.state, list(found.gaps)) == (state, [gap] if gap else [])


@pytest.mark.parametrize(("read", "reported", "state"), [(60, 4, "blocked"), (60, 6, "unknown"), (4, 6, "blocked")])
def test_reading_counts_for_seconds_after_github_has_reported_a_change(
    frozen: Frozen, read: int, reported: int, state: str
) -> None:
    statement = """
        UPDATE branch_enforcement SET rules_read_at = now() - :read * interval '1 s',
               rules_reported_at = now() - :reported * interval '1 s'
    """
    frozen.change(statement, read=read, reported=reported)
    assert frozen.blocking().state == state


class TestStandingSuccess:
    def test_recorded_success_is_not_blocked(self, frozen: Frozen) -> None:
        frozen.succeed()
        assert frozen.blocking() == Blocking("not_blocked", "writing")

    def test_failure_under_way_from_a_write_that_may_say_success_is_not_blocked(self, frozen: Frozen) -> None:
        frozen.succeed(conclusion="failure")
        assert frozen.blocking().state == "blocked"
        frozen.change("UPDATE head_checks SET unconfirmed = true")
        assert frozen.blocking().state == "not_blocked"

    def test_success_of_another_check_does_not_count(self, frozen: Frozen) -> None:
        frozen.succeed()
        frozen.change("UPDATE head_checks SET check_name = 'change-freeze/*'")
        assert frozen.blocking().state == "blocked"
        frozen.change("UPDATE branch_enforcement SET decisive_check = 'change-freeze/*'")
        assert frozen.blocking().state == "not_blocked"

    @pytest.mark.parametrize(
        ("statement", "cause"),
        [
            ("UPDATE installations SET state = 'suspended'", "suspended"),
            ("UPDATE checks SET last_error_code = 'installation_suspended'", "suspended"),
            ("UPDATE installations SET paused_until = now() + interval '1 hour'", "rate_limit"),
            ("UPDATE checks SET last_error_code = 'github_secondary_rate_limit'", "rate_limit"),
            ("UPDATE checks SET last_error_code = 'github_unavailable'", "github"),
            ("UPDATE checks SET last_error_code = 'maintenance'", "restore"),
            ("UPDATE checks SET outdated_since = now() - interval '2 minutes'", "no_worker"),
            ("UPDATE checks SET outdated_since = now()", "writing"),
        ],
    )
    def test_cause_is_what_the_write_waits_for(self, frozen: Frozen, statement: str, cause: str) -> None:
        frozen.succeed()
        frozen.change(statement)
        assert frozen.blocking().cause == cause


class TestExceptions:
    @pytest.fixture(autouse=True)
    def _success(self, frozen: Frozen) -> None:
        repository = frozen.session.get_one(Repository, frozen.web.repository_id)
        self.pull = factories.pull_request(frozen.session, repository, 7, head_sha=HEAD)
        frozen.succeed()

    def test_head_that_an_exception_lets_in_does_not_end_the_blocking(self, frozen: Frozen) -> None:
        factories.exception(frozen.session, frozen.freeze, self.pull, frozen.web)
        frozen.session.commit()
        assert frozen.blocking().state == "blocked"

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE exceptions SET revoked_at = now()",
            "UPDATE exceptions SET expires_at = now() - interval '1 second'",
            "UPDATE exceptions SET decision = NULL",
            "UPDATE exceptions SET pin_to_head = true, head_sha = repeat('b', 40)",
            "UPDATE pull_requests SET head_sha = repeat('b', 40)",
        ],
    )
    def test_exception_that_does_not_apply_lets_nothing_in(self, frozen: Frozen, statement: str) -> None:
        factories.exception(frozen.session, frozen.freeze, self.pull, frozen.web)
        frozen.change("UPDATE checks SET wanted_generation = written_generation + 1")
        frozen.change(statement)
        assert frozen.blocking().state == "not_blocked"

    def test_every_freeze_needs_an_exception(self, frozen: Frozen) -> None:
        factories.exception(frozen.session, frozen.freeze, self.pull, frozen.web)
        second = factories.freeze(frozen.session, frozen.acme, [frozen.web])
        frozen.session.commit()
        assert frozen.blocking().state == "not_blocked"
        factories.exception(frozen.session, second, self.pull, frozen.web)
        frozen.session.commit()
        assert frozen.blocking().state == "blocked"


class TestLights:
    def test_light_of_a_branch_follows_its_freeze(
        self, session: Session, unit_of: UnitOfWorkOpener, acme: Organization, web: WatchedBranch
    ) -> None:
        succeed(session, web)

        def light() -> str:
            with unit_of(acme) as uow:
                shown = statuses(uow, [web.id])[web.id].light
                assert count_lights(uow).lights[shown] == 1
            return shown

        assert light() == "green"
        factories.freeze(session, acme, [web])
        session.commit()
        assert light() == "red"
        change(session, "UPDATE head_checks SET conclusion = 'failure'")
        assert light() == "green"
        change(session, "UPDATE branch_enforcement SET open_ways = '{deletion}'")
        assert light() == "amber"
        change(session, "UPDATE freezes SET ended_at = now()")
        assert light() == "green"

    @pytest.mark.parametrize(
        ("statement", "light", "code"),
        [
            ("UPDATE installations SET state = 'suspended'", "red", "installation_suspended"),
            ("UPDATE installations SET state = 'removed'", "red", "installation_removed"),
            ("UPDATE branch_enforcement SET rules_read_at = now() - interval '1 hour'", "amber", "not_verified"),
            ("UPDATE branch_enforcement SET decisive_check = NULL, light = 'red'", "red", None),
            ("UPDATE installations SET state = 'suspended'; UPDATE repositories SET archived = true", "green", None),
        ],
    )
    def test_light_of_an_unfrozen_branch_says_whether_a_freeze_would_block(
        self,
        session: Session,
        unit_of: UnitOfWorkOpener,
        acme: Organization,
        web: WatchedBranch,
        statement: str,
        light: str,
        code: str | None,
    ) -> None:
        change(session, statement)
        with unit_of(acme) as uow:
            shown = statuses(uow, [web.id])[web.id]
            assert count_lights(uow).lights[shown.light] == 1
        assert (shown.light, shown.finding and shown.finding.code) == (light, code)

    def test_frozen_branch_without_a_success_is_green_while_the_app_is_suspended(
        self, session: Session, unit_of: UnitOfWorkOpener, acme: Organization, web: WatchedBranch, frozen: Frozen
    ) -> None:
        change(session, "UPDATE installations SET state = 'suspended'")
        with unit_of(acme) as uow:
            blocked = statuses(uow, [web.id])[web.id]
        succeed(session, web)
        with unit_of(acme) as uow:
            standing = statuses(uow, [web.id])[web.id]
        assert (blocked.light, blocked.finding) == ("green", None)
        assert (standing.light, standing.finding and standing.finding.code) == ("red", "installation_suspended")


def test_intervals_of_the_statements_are_those_of_the_rules() -> None:
    minutes, seconds = int(MAX_READING_AGE.total_seconds() // 60), int(MAX_WRITE_DELAY.total_seconds())
    reported = int(MAX_REPORT_DELAY.total_seconds())
    for statement in (blocking_facts.FROZEN_KEY, blocking_facts.KEY, blocking_facts.WAITS_FOR, blocking_facts.IS_LATE):
        found = set(re.findall(r"interval '([^']*)'", statement))
        assert found <= {f"{minutes} minutes", f"{seconds} seconds", f"{reported} seconds"}
    assert timedelta(minutes=minutes) == MAX_READING_AGE
