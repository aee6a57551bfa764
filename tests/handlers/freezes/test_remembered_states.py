"""What processes remember of the freeze state is what a query would say: after every change, in every process."""

from collections.abc import Iterator
from datetime import timedelta

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from tests.handlers.freezes.remembering import COMPUTED, HOUR, Processes, make_setting
from tests.harness.clock import MovableClock
from tests.harness.sessions import owner_session

FREEZE = """
    INSERT INTO freezes (id, organization_id, reason, scope, source, started_at, exceptions_allowed,
                         impact_acknowledged, created_by)
    VALUES ('frz_00000000000000000000000000', :organization, 'New', '{}', 'manual', now() - interval '1 hour',
            true, true, '{}')
"""
TARGET = """
    INSERT INTO freeze_targets (id, organization_id, freeze_id, branch_id, operation, generation)
    VALUES ('tgt_new', :organization, :freeze, :dev, 'apply', 1)
"""
CHECK = """
    INSERT INTO head_checks (repository_id, check_name, head_sha, organization_id, branch_id, conclusion, evaluation,
                             summary_hash, unconfirmed, written_at)
    VALUES (:web, 'change-freeze/main', 'abc', :organization, :main, {values}, now())
"""
RULES = "UPDATE branch_enforcement SET {changed} WHERE branch_id = :main"
CHANGES = {
    "a freeze is recorded with its branches": FREEZE
    + "; UPDATE freeze_targets SET freeze_id = 'frz_00000000000000000000000000'",
    "a freeze covers another branch": TARGET,
    "a freeze covers a branch no more": "DELETE FROM freeze_targets WHERE freeze_id = :freeze",
    "a freeze releases its branches": "UPDATE freeze_targets SET operation = 'release' WHERE freeze_id = :freeze",
    "a freeze moves to another branch": "UPDATE freeze_targets SET branch_id = :dev WHERE freeze_id = :freeze",
    "a freeze has another reason": "UPDATE freezes SET reason = 'Other' WHERE id = :freeze",
    "a freeze starts later": "UPDATE freezes SET started_at = now() + interval '1 hour' WHERE id = :freeze",
    "a freeze is extended": "UPDATE freezes SET ends_at = now() + interval '3 hours' WHERE id = :freeze",
    "a freeze ends": "UPDATE freezes SET ended_at = now() WHERE id = :freeze",
    "a freeze allows no exceptions": "UPDATE freezes SET exceptions_allowed = false WHERE id = :freeze",
    "a branch is watched": """
        INSERT INTO watched_branches (id, organization_id, repository_id, name, check_name, created_at)
        VALUES ('wbr_00000000000000000000000000', :organization, :web, 'new', 'change-freeze/new', now())""",
    "a branch is watched no more": "UPDATE watched_branches SET unwatched_at = now() WHERE id = :main",
    "a branch has another name": "UPDATE watched_branches SET name = 'trunk' WHERE id = :dev",
    "a repository is added": """
        INSERT INTO repositories (id, organization_id, installation_id, github_id, node_id, owner, name,
                                  default_branch, private, enabled, created_at, synced_at)
        SELECT 'rep_00000000000000000000000000', organization_id, installation_id, 1, 'R_1', 'acme', 'nowhere',
               'main', true, true, now(), now() FROM repositories WHERE id = :web""",
    "a repository has another name": "UPDATE repositories SET name = 'site' WHERE id = :web",
    "a repository has another owner": "UPDATE repositories SET owner = 'globex' WHERE id = :web",
    "a repository had another name": "UPDATE repositories SET name = 'x', former_names = '{}' WHERE id = :web",
    "a repository is disabled": "UPDATE repositories SET enabled = false WHERE id = :web",
    "a repository is removed": "UPDATE repositories SET removed_at = now() WHERE id = :web",
    "an installation is removed": "UPDATE installations SET state = 'removed' WHERE id = :installation",
    "an organisation has another name": "UPDATE organizations SET name = 'Other' WHERE id = :organization",
    "a schedule has another scope": """UPDATE schedules SET scope = '{"type": "organization"}' WHERE id = :schedule""",
    "a schedule has another reason": "UPDATE schedules SET reason = 'Other' WHERE id = :schedule",
    "a schedule allows no exceptions": "UPDATE schedules SET exceptions_allowed = false WHERE id = :schedule",
    "a schedule is disabled": "UPDATE schedules SET enabled = false WHERE id = :schedule",
    "a schedule is deleted": "UPDATE schedules SET deleted_at = now() WHERE id = :schedule",
    "a window is planned": """
        INSERT INTO occurrences (id, organization_id, schedule_id, starts_at, ends_at)
        SELECT 'occ_new', organization_id, schedule_id, now() + interval '1 hour', now() + interval '2 hours'
        FROM occurrences WHERE id = :planned""",
    "a window begins earlier": "UPDATE occurrences SET starts_at = now() + interval '1 hour' WHERE id = :planned",
    "a window ends later": "UPDATE occurrences SET ends_at = ends_at + interval '1 hour' WHERE id = :due",
    "a window is skipped": "UPDATE occurrences SET skip_reason = 'asked' WHERE id = :due",
    "a window is recorded as begun": "UPDATE occurrences SET started_at = now() WHERE id = :due",
    "a window is recorded as missed": "UPDATE occurrences SET missed_at = now() WHERE id = :due",
    "a window is removed": "DELETE FROM occurrences WHERE id = :planned",
    "no rule requires the check": RULES.format(changed="decisive_check = NULL"),
    "rules are not read": RULES.format(changed="rules_read_at = NULL"),
    "rules were read long ago": RULES.format(changed="rules_read_at = rules_read_at - interval '1 hour'"),
    "rules were reported to have changed": RULES.format(changed="rules_reported_at = now() - interval '1 hour', "
    "rules_read_at = now() - interval '2 hours'"),
    "what is known of rules is removed": "DELETE FROM branch_enforcement WHERE branch_id = :main",
    "a success is written": CHECK.format(values="'success', 1, '', false"),
    "a success is announced": CHECK.format(values="'failure', 0, '', true"),
}  # fmt: skip

OTHER = """
    INSERT INTO installations (id, organization_id, account, state, permissions, created_at)
    SELECT id + 1000000000, organization_id, 'globex', {state}, '{{}}', now()
    FROM installations WHERE id = :installation
"""
REMOVED = "UPDATE installations SET state = 'removed' WHERE id = :installation"
CHANGES_AFTER_OTHERS = {
    "a repository is archived": (
        RULES.format(changed="decisive_check = NULL"),
        "UPDATE repositories SET archived = true WHERE id = :web",
    ),
    "a repository comes to another installation": (
        OTHER.format(state="'removed'"),
        "UPDATE repositories SET installation_id = installation_id + 1000000000 WHERE id = :web",
    ),
    "an installation is added": (REMOVED, OTHER.format(state="'active'")),
    "an installation is taken away": (
        REMOVED + ";" + OTHER.format(state="'active'"),
        "UPDATE installations SET organization_id = NULL WHERE id = :installation + 1000000000",
    ),
    "a success is written over a failure": (
        CHECK.format(values="'failure', 1, '', false"),
        "UPDATE head_checks SET conclusion = 'success'",
    ),
    "a success is announced over a failure": (
        CHECK.format(values="'failure', 1, '', false"),
        "UPDATE head_checks SET unconfirmed = true",
    ),
}


@pytest.fixture
def processes(clients: list[httpx.Client], session: Session, clock: MovableClock) -> Processes:
    return Processes(clients, make_setting(session))


@pytest.fixture
def transaction(database: str) -> Iterator[Session]:
    """Open a transaction beside that of the test."""
    with owner_session(database) as session:
        yield session


def change(session: Session, statement: str, processes: Processes) -> None:
    for one in statement.split(";"):
        session.execute(text(one), processes.setting.values())


def version(session: Session, processes: Processes) -> str:
    found: str = session.execute(text("SELECT freeze_version(:organization)"), processes.setting.values()).scalar_one()
    return found


def test_state_is_computed_once_in_every_process(processes: Processes) -> None:
    answers = processes.remember()
    assert [processes.ask(client) for client in processes.clients] == [answers, answers]
    assert COMPUTED["states"] == 0
    of_frozen_branches = 2
    assert COMPUTED["classic"] == 2 * of_frozen_branches


@pytest.mark.slow(20)
@pytest.mark.parametrize("changed", CHANGES)
def test_change_is_in_the_next_answer_of_every_process(processes: Processes, session: Session, changed: str) -> None:
    before = processes.remember()
    change(session, CHANGES[changed], processes)
    assert processes.agree() != before


@pytest.mark.parametrize("changed", CHANGES_AFTER_OTHERS)
def test_change_after_others_is_in_the_next_answer(processes: Processes, session: Session, changed: str) -> None:
    others, statement = CHANGES_AFTER_OTHERS[changed]
    change(session, others, processes)
    before = processes.remember()
    change(session, statement, processes)
    assert processes.agree() != before


@pytest.mark.parametrize(
    "until",
    [
        pytest.param(2 * HOUR, id="a freeze ends"),
        pytest.param(HOUR, id="a due window ends"),
        pytest.param(timedelta(days=1), id="a window begins"),
        pytest.param(timedelta(minutes=30), id="rules were read too long ago"),
    ],
)
def test_remembered_state_ends_with_time(processes: Processes, clock: MovableClock, until: timedelta) -> None:
    clock.offset = until - timedelta(seconds=10)
    before = processes.remember()
    clock.offset = until + timedelta(seconds=10)
    assert processes.agree() != before


def test_report_of_changed_rules_counts_after_seconds(
    processes: Processes, session: Session, clock: MovableClock
) -> None:
    change(session, RULES.format(changed="rules_reported_at = now() + interval '1 minute'"), processes)
    clock.offset = timedelta(minutes=1)
    before = processes.remember()
    clock.offset += timedelta(seconds=6)
    assert processes.agree() != before


def test_state_is_not_remembered_for_a_time_before_it(processes: Processes, clock: MovableClock) -> None:
    clock.offset = timedelta(minutes=31)
    before = processes.remember()
    clock.offset = timedelta()
    assert processes.agree() != before


def test_freeze_starts_when_the_clock_says_so(processes: Processes, session: Session, clock: MovableClock) -> None:
    change(session, "UPDATE freezes SET started_at = now() + interval '1 minute' WHERE id = :freeze", processes)
    before = processes.remember()
    clock.offset = timedelta(seconds=61)
    assert processes.agree() != before


@pytest.mark.parametrize(
    ("outdated", "read"),
    [
        pytest.param("rules_read_at = NULL", "rules_read_at = now()", id="first reading"),
        pytest.param("rules_read_at = now() - interval '1 hour'", "rules_read_at = now()", id="after a long time"),
        pytest.param(
            "rules_read_at = now() - interval '2 minutes', rules_reported_at = now() - interval '1 minute'",
            "rules_read_at = now()",
            id="after a report",
        ),
    ],
)
def test_rules_count_again_once_they_are_read(processes: Processes, session: Session, outdated: str, read: str) -> None:
    change(session, RULES.format(changed=outdated), processes)
    before = processes.remember()
    change(session, RULES.format(changed=read), processes)
    assert processes.agree() != before


@pytest.mark.parametrize(
    "unchanged",
    [
        RULES.format(changed="rules_read_at = rules_read_at + interval '5 minutes', verified_at = now()"),
        CHECK.format(values="'failure', 1, '', false"),
        CHECK.replace(":main", ":dev").replace("change-freeze/main", "change-freeze/dev").format(
            values="'success', 1, '', false"
        ),
        "UPDATE checks SET written_generation = wanted_generation, due_at = NULL",
        "UPDATE freeze_targets SET state = 'applied', heads_written = 1",
        "UPDATE freezes SET enforced_at = now()",
        "UPDATE repositories SET synced_at = now()",
    ],
    ids=["read again", "failure written", "success elsewhere", "check", "target", "receipt", "resync"],
)  # fmt: skip
def test_work_of_every_minute_leaves_states_remembered(processes: Processes, session: Session, unchanged: str) -> None:
    processes.remember()
    change(session, unchanged, processes)
    processes.agree()
    assert COMPUTED["states"] == 8  # those of the judge


def test_changes_at_the_same_time_wait_for_nothing_and_raise_the_version(
    processes: Processes, session: Session, transaction: Session, database: str
) -> None:
    seen = [version(session, processes)]
    change(transaction, "UPDATE freezes SET reason = 'One' WHERE id = :freeze", processes)
    seen.append(version(session, processes))
    with owner_session(database) as other:
        change(other, "SET LOCAL lock_timeout = '2s'", processes)
        change(other, "UPDATE schedules SET reason = 'Other' WHERE id = :schedule", processes)
        other.commit()
    seen.append(version(session, processes))
    transaction.commit()
    seen.append(version(session, processes))
    change(session, "UPDATE freezes SET reason = 'Two' WHERE id = :freeze", processes)
    seen.append(version(session, processes))
    assert seen[0] == seen[1]
    assert len(set(seen)) == 4


def test_check_that_begins_to_stand_is_seen_beside_a_freeze_that_starts(
    processes: Processes, session: Session, transaction: Session
) -> None:
    change(transaction, "SELECT id FROM checks WHERE branch_id = :dev FOR NO KEY UPDATE", processes)
    change(transaction, TARGET, processes)
    before = version(session, processes)
    of_dev = CHECK.replace(":main", ":dev").replace("change-freeze/main", "change-freeze/dev")
    change(session, of_dev.format(values="'success', 1, '', false"), processes)
    assert version(session, processes) != before


def test_state_is_not_remembered_while_a_success_stands(processes: Processes, session: Session) -> None:
    change(session, CHECK.format(values="'success', 1, '', false"), processes)
    processes.agree()
    change(session, "UPDATE head_checks SET conclusion = 'failure'", processes)
    assert processes.agree()[0]["enforced"] is True


def test_change_after_one_that_was_rolled_back_raises_the_version(
    processes: Processes, session: Session, transaction: Session
) -> None:
    before = version(session, processes)
    savepoint = transaction.begin_nested()
    change(transaction, "UPDATE freezes SET reason = 'One' WHERE id = :freeze", processes)
    savepoint.rollback()
    change(transaction, "UPDATE freezes SET reason = 'Two' WHERE id = :freeze", processes)
    transaction.commit()
    assert version(session, processes) != before


def test_organisations_are_answered_each_for_itself(
    processes: Processes, clients: list[httpx.Client], session: Session
) -> None:
    other = Processes(clients, make_setting(session))
    assert processes.remember()[5]["subject"] != other.remember()[5]["subject"]
    COMPUTED.clear()
    assert processes.ask(clients[0])[5]["subject"] != other.ask(clients[0])[5]["subject"]
    assert COMPUTED["states"] == 0
    change(session, "UPDATE freezes SET ended_at = now() WHERE id = :freeze", other)
    assert processes.agree() != other.agree()


def test_remembered_state_is_refused_to_whom_it_is_refused(processes: Processes, session: Session) -> None:
    processes.remember()
    change(session, "UPDATE api_keys SET scopes = '{audit:read}' WHERE organization_id = :organization", processes)
    headers, asked = {"Authorization": f"Bearer {processes.setting.key}"}, {"organization": "current"}
    assert processes.clients[0].get("/v1/freeze-state", params=asked, headers=headers).status_code == 403
    change(session, "UPDATE api_keys SET revoked_at = now() WHERE organization_id = :organization", processes)
    assert processes.clients[0].get("/v1/freeze-state", params=asked, headers=headers).status_code == 401


@pytest.mark.parametrize(
    ("headers", "remembered"),
    [
        ({}, True),
        ({"Content-Type": "application/json"}, True),
        ({"If-None-Match": "*"}, True),
        ({"Content-Type": "text/plain"}, False),
        ({"Content-Length": "2"}, False),
    ],
    ids=["plain", "json", "condition", "another type", "body"],
)
def test_only_what_the_address_asks_is_answered_from_memory(
    processes: Processes, headers: dict[str, str], *, remembered: bool
) -> None:
    processes.remember()
    given = {"Authorization": f"Bearer {processes.setting.key}", **headers}
    answer = processes.clients[0].get("/v1/freeze-state", params={"organization": "current"}, headers=given)
    assert answer.status_code == (304 if "If-None-Match" in headers else 200)
    assert COMPUTED["states"] == (0 if remembered else 1)
