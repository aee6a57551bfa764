"""What two processes remember of the freeze state is what queries say, whatever happens in whatever order."""

from datetime import timedelta
from typing import Any, ClassVar

import httpx
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from sqlalchemy import text
from sqlalchemy.orm import Session

from tests import factories
from tests.handlers.freezes.remembering import Processes, make_setting
from tests.harness.clock import MovableClock
from tests.harness.sessions import committing
from tests.harness.state_machines import explore

REASON = "Release under way"
SCOPES = st.sampled_from(
    [
        {"type": "organization"},
        {"type": "repositories", "repositories": ["acme/web"]},
        {"type": "glob", "patterns": ["acme/a*"]},
        {"type": "branch", "repository": "acme/web", "branch": "dev"},
    ]
)
BRANCHES = st.sampled_from(["main", "dev", "api"])
MINUTES = st.sampled_from([-45, -3, 0, 1, 3, 20, 45, 200, 2000])


class Machine(RuleBasedStateMachine):
    """People act by one of two processes, and workers write rows."""

    clients: ClassVar[list[httpx.Client]]
    clock: ClassVar[MovableClock]
    session: ClassVar[Session]

    def __init__(self) -> None:
        super().__init__()
        self.clock.offset = timedelta()
        self.processes = Processes(self.clients, make_setting(self.session))
        self.turn = 0
        self.freezes = [self.processes.setting.freeze.id]

    def act(self, method: str, path: str, body: Any) -> Any:
        """Do something by one process after the other; what is refused changes nothing."""
        self.turn += 1
        headers = {"Authorization": f"Bearer {self.processes.setting.key}"}
        answer = self.clients[self.turn % 2].request(method, f"/v1{path}", json=body, headers=headers)
        assert answer.status_code < 500, answer.text
        return answer.json() if answer.status_code < 300 else {}

    def sql(self, statement: str, **values: Any) -> None:
        self.session.execute(text(statement), self.processes.setting.values() | values)

    def id_of(self, branch: str) -> str:
        found: str = self.processes.setting.values()[branch]
        return found

    @rule(scope=SCOPES, minutes=MINUTES)
    def start_freeze(self, scope: dict[str, Any], minutes: int) -> None:
        ends_at = factories.now() + self.clock.offset + timedelta(minutes=minutes)
        ends = {} if minutes <= 0 else {"endsAt": ends_at.isoformat().replace("+00:00", "Z")}
        made = self.act("POST", "/freezes", {"scope": scope, "reason": REASON, "impactAcknowledged": True, **ends})
        self.freezes += [made["id"]] if made else []

    @precondition(lambda self: self.freezes)
    @rule()
    def lift_freeze(self) -> None:
        self.act("POST", f"/freezes/{self.freezes.pop()}/lift", {})

    @precondition(lambda self: self.freezes)
    @rule()
    def extend_freeze(self) -> None:
        self.act("POST", f"/freezes/{self.freezes[-1]}/extend", {"endsAt": None})

    @rule(minutes=MINUTES)
    def pass_time(self, minutes: int) -> None:
        self.clock.offset += timedelta(minutes=minutes)

    @rule(branch=BRANCHES, decisive=st.sampled_from(["change-freeze/main", None]))
    def read_rules(self, branch: str, decisive: str | None) -> None:
        self.sql(
            "INSERT INTO branch_enforcement (branch_id, organization_id, decisive_check, open_ways, rules_read_at) "
            "VALUES (:branch, :organization, :decisive, '{}', :now) ON CONFLICT (branch_id) DO UPDATE SET "
            "decisive_check = excluded.decisive_check, rules_read_at = excluded.rules_read_at",
            branch=self.id_of(branch),
            decisive=decisive,
            now=factories.now() + self.clock.offset,
        )

    @rule(branch=BRANCHES)
    def report_rules(self, branch: str) -> None:
        reported = factories.now() + self.clock.offset
        statement = "UPDATE branch_enforcement SET rules_reported_at = :now WHERE branch_id = :branch"
        self.sql(statement, branch=self.id_of(branch), now=reported)

    @rule(branch=BRANCHES, conclusion=st.sampled_from(["success", "failure"]), unconfirmed=st.booleans())
    def write_check(self, branch: str, conclusion: str, *, unconfirmed: bool) -> None:
        self.sql(
            "INSERT INTO head_checks (repository_id, check_name, head_sha, organization_id, branch_id, conclusion, "
            "evaluation, summary_hash, unconfirmed, written_at) SELECT repository_id, check_name, 'abc', "
            "organization_id, id, :conclusion, 1, '', :unconfirmed, now() FROM watched_branches WHERE id = :branch "
            "ON CONFLICT (repository_id, check_name, head_sha) DO UPDATE SET conclusion = excluded.conclusion, "
            "unconfirmed = excluded.unconfirmed",
            branch=self.id_of(branch),
            conclusion=conclusion,
            unconfirmed=unconfirmed,
        )

    @rule(state=st.sampled_from(["active", "suspended", "removed"]))
    def change_installation(self, state: str) -> None:
        self.sql("UPDATE installations SET state = :state WHERE id = :installation", state=state)

    @rule(branch=BRANCHES)
    def watch_or_unwatch(self, branch: str) -> None:
        statement = "UPDATE watched_branches SET unwatched_at = CASE WHEN unwatched_at IS NULL THEN now() END"
        self.sql(f"{statement} WHERE id = :branch", branch=self.id_of(branch))

    @rule(name=st.sampled_from(["web", "site"]))
    def rename_repository(self, name: str) -> None:
        self.sql("UPDATE repositories SET name = :name WHERE id = :web", name=name)

    @rule(changed=st.sampled_from(["enabled = NOT enabled", "reason = reason || '!'"]))
    def change_schedule(self, changed: str) -> None:
        self.sql(f"UPDATE schedules SET {changed} WHERE id = :schedule")

    @rule(window=st.sampled_from(["due", "planned"]))
    def skip_window(self, window: str) -> None:
        statement = "UPDATE occurrences SET skip_reason = CASE WHEN skip_reason IS NULL THEN 'asked' END"
        self.sql(f"{statement} WHERE id = :window", window=self.id_of(window))

    @invariant()
    def processes_agree(self) -> None:
        self.processes.agree()


@pytest.mark.slow(3)
@pytest.mark.parametrize("histories", [1, pytest.param(4, marks=pytest.mark.check)])
def test_processes_remember_what_queries_say(
    database: str, clients: list[httpx.Client], clock: MovableClock, histories: int
) -> None:
    with committing(database) as session:
        explore(Machine, histories, steps=20, clients=clients, clock=clock, session=session)
