"""I25 under whatever happens in whatever order: what a surface calls blocked, the simulated GitHub refuses.

People make, loosen and delete rules, of the organisation too, and queues; they delete, create and rename branches,
change the default branch; archive, rename, transfer and delete repositories, and make them again; cut permissions,
suspend, uninstall and install the App; webhooks arrive or are lost; GitHub fails and limits; freezes, windows, lifts
and exceptions come in between. After every step GitHub is asked for each way into each frozen branch, and every surface
is read, Slack messages and mails included. What people did at GitHub and we were not told of yet is left out until
we are told, but for no longer than a reading of the rules counts.

`tests/faults/state_machines.py` says how to explore.
"""

from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from rules.errors import ServiceError
from rules.freezes.blocking import MAX_READING_AGE
from rules.freezes.check_names import check_name
from services.core.unit_of_work import SYSTEM_CALLER
from services.enforcement.frozen_branches import write_due
from services.enforcement.probes import probe_due
from services.enforcement.ruleset_facts import read_facts, read_organization_facts
from services.enforcement.setup_runs import apply_due
from services.enforcement.stops import stop_due
from services.maintenance.resync import full_resync
from services.maintenance.tasks import end_freezes, review_enforcement
from services.pull_request_exceptions.expiry import end_exceptions
from services.reconcile.leases import Turn, acquire
from services.schedules.occurrence_start import start_windows
from tests.faults.people_at_github import PullRequests, RulesAndBranches
from tests.faults.state_machines import some
from tests.faults.upheavals_at_github import Installations, Repositories
from tests.harness.blocking_surfaces import REPLACING, Said, attention, false_claims, ways_in, what_is_said
from tests.harness.github_harness import Harness
from tests.harness.messages import Messages
from tests.harness.pipeline import let_pass, revoke
from tests.harness.state_machines import explore
from tests.harness.webhook_queue import WebhookQueue, work
from tests.jobs.stops.requests import required, required_above, stop_from
from tools.fake_github.model.installations import suspend
from tools.fake_github.model.protection import required_checks
from tools.fake_github.model.rulesets import rules_for_branch

SCOPES: list[dict[str, Any]] = [
    {"type": "organization"},
    {"type": "organization", "branches": ["main"]},
    {"type": "repositories", "repositories": ["acme/api"]},
    {"type": "glob", "patterns": ["acme/w*"]},
    {"type": "branch", "repository": "acme/web", "branch": "main"},
    {"type": "branch", "repository": "acme/web", "branch": "release/2"},
]


class Machine(PullRequests, RulesAndBranches, Repositories, Installations):
    """Two repositories; in one of them, or both, an administrator has authorised the service to write rules.

    Where they did in both, these may leave a stop to their organisation.
    """

    named = ("api", "web")
    unprotected = (("web", "release/2"),)
    proposed = ("main", "release/1")

    def __init__(self) -> None:
        super().__init__()
        self.harness.fake_github.settings.primary_limits = False
        self._authorize("api")
        stop_from(self.harness, shared_above=1)
        self.harness.read_rules()
        self.unsure = False
        """Whether something was untold before the last step."""
        self.messages = Messages(self.harness)

    def _authorize(self, *names: str) -> None:
        authorize = "UPDATE repositories SET rulesets_authorized_at = created_at WHERE name = ANY(:names)"
        self.harness.sql(authorize, names=list(names))

    # --- the service ----------------------------------------------------------------------------------------------

    @initialize(
        which=some,
        queue=st.sampled_from([None, None, "main", "release/1"]),
        both=st.booleans(),
        steps=st.sampled_from([0, 1, 5]),
    )
    def begin_with_a_freeze(self, which: int, queue: str | None, both: bool, steps: int) -> None:
        """Begin frozen, and perhaps with a merge queue and a stop; most of what can go wrong needs a freeze."""
        if both:
            self._authorize(*self.named)
        if queue is not None:
            self.write_a_rule(which, queue, queue=True, told=False)
        self.harness.freeze(SCOPES[which % len(SCOPES)])
        self.stop(steps)

    @rule(which=some, hours=st.sampled_from([None, 1, 3]), steps=st.sampled_from([0, 1, 5]))
    def freeze(self, which: int, hours: int | None, steps: int = 0) -> None:
        """Freeze, and perhaps stop before the checks are written."""
        with self.harness.jobs.open(SYSTEM_CALLER) as uow:
            ends_at = uow.now + timedelta(hours=hours) if hours else None
        if len(self.running()) < 3:
            with suppress(ServiceError):
                self.harness.freeze(SCOPES[which % len(SCOPES)], ends_at=ends_at)
        self.stop(steps)

    @precondition(lambda self: self.running())
    @rule(which=some)
    def lift(self, which: int) -> None:
        running = self.running()
        self.harness.lift(running[which % len(running)])

    @rule(which=some, minutes=st.sampled_from([-30, 10]))
    def plan_a_window(self, which: int, minutes: int) -> None:
        self.plan(SCOPES[which % len(SCOPES)], minutes=minutes, hours=2, most=2)

    @rule(which=some, minutes=st.sampled_from([None, 15]), pin=st.booleans())
    def grant_an_exception(self, which: int, minutes: int | None, pin: bool) -> None:
        if (found := self.any_pull_request(which)) is not None:
            name = f"{self.harness.fake_github.world.full_name(found[0])}#{found[1].number}"
            with suppress(ServiceError):
                let_pass(self.harness, name, minutes=minutes, pin=pin)

    @rule(which=some)
    def revoke_an_exception(self, which: int) -> None:
        rows = self.harness.sql("SELECT id FROM exceptions WHERE revoked_at IS NULL ORDER BY id")
        if rows:
            with suppress(ServiceError):
                revoke(self.harness, rows[which % len(rows)][0])

    @rule(minutes=st.sampled_from([1, 5, 20, 40]))
    def pass_time(self, minutes: int) -> None:
        self.clock.offset += timedelta(minutes=minutes)

    @rule()
    def sweep(self) -> None:
        for task in (start_windows, end_freezes, end_exceptions, review_enforcement):
            task(self.harness.jobs)

    @rule(passes=st.sampled_from([1, 9]))
    def work(self, passes: int) -> None:
        while passes and self.harness.reconciler.run_pass():
            passes -= 1

    @rule(steps=st.sampled_from([1, 1, 2, 5]))
    def stop(self, steps: int) -> None:
        while steps and stop_due(self.harness.jobs, self.harness.github):
            steps -= 1

    @rule()
    def probe(self) -> None:
        probe_due(self.harness.jobs, self.harness.github)

    @rule()
    def write_rules(self) -> None:
        if not write_due(self.harness.jobs, self.harness.github):
            apply_due(self.harness.jobs, self.harness.github)

    @rule()
    def a_worker_dies(self) -> None:
        with self.harness.jobs.open(SYSTEM_CALLER) as uow:
            acquire(uow, Turn())

    # --- between the two ------------------------------------------------------------------------------------------

    @rule(kind=st.sampled_from(["error", "disconnect"]), after=st.booleans(), count=st.sampled_from([1, 3]))
    def github_fails(self, kind: str, after: bool, count: int) -> None:
        self.harness.fake_github.faults.add(kind, after=after, count=count)

    @rule(graphql=st.sampled_from([0, 2, None]))
    def github_limits(self, graphql: int | None) -> None:
        """Leave so many points of GraphQL for the hour; None: enough."""
        settings = self.harness.fake_github.settings
        settings.primary_limits, settings.graphql_points_per_hour = graphql is not None, graphql

    @rule()
    def webhooks_are_lost(self) -> None:
        if self.webhook_queue.take():
            self.all_delivered = False

    @rule()
    def we_are_told(self) -> None:
        """Deliver what has not been lost, and do what follows from it, after all limits of GitHub are over."""
        self.harness.fake_github.faults.clear()
        self.github_limits(None)
        self.harness.sql("UPDATE installations SET paused_until = NULL")
        self.harness.github._clients.clear()  # a client pauses by the time of the machine, which does not pass here
        self.webhook_queue = WebhookQueue(self.harness, self.webhook_queue.taken)
        while deliveries := self.webhook_queue.take():
            self.webhook_queue.deliver(deliveries)
            self._settle()
        if self.all_delivered:
            self.forget_untold()

    def _settle(self) -> None:
        harness = self.harness
        setups: list[Any] | None = None
        for _ in range(30):
            work(harness)
            harness.sql("UPDATE enforcement_setups SET due_at = now() - interval '1 s' WHERE due_at IS NOT NULL")
            done = sum(job(harness.jobs, harness.github) for job in (stop_due, write_due, probe_due))
            apply_due(harness.jobs, harness.github)
            before, setups = (
                setups,
                harness.sql("SELECT id, state, written, progress FROM enforcement_setups ORDER BY id"),
            )
            if not done and setups == before:  # a setup may wait for checks that a dead worker holds
                return
        raise AssertionError("the service does not come to rest")

    @rule()
    def come_to_rest(self) -> None:
        harness = self.harness
        self.we_are_told()
        for _ in range(2):  # leases run out, retries come due
            self.clock.offset += timedelta(minutes=45)
            self.sweep()
            full_resync(harness.jobs, timedelta(0))
            self._settle()
        self.sweep()
        self.all_delivered = True
        self.forget_untold()
        said = what_is_said(harness)
        self.messages.dispatch()
        self.messages.check_last_words(said)
        if self.installation is None or self.installation.suspended_at:
            return
        for (github_id, branch), one in said.items():
            if self.hears(github_id):
                self._check_at_rest(github_id, branch, one)
        self._check_stops()
        assert not (uncovered := self.uncovered_successors(set(said))), uncovered

    def _check_stops(self) -> None:
        """Check that no stop is on without need where we may write: a freeze has heads that show `success`."""
        if self.installation is None or self.installation.permissions.get("administration") != "write":
            return
        for repository in self.existing:
            if repository.archived or not self.hears(repository.id):
                continue
            if found := required(self.harness, self.harness.fake_github.world.full_name(repository)):
                rows = self.harness.sql("SELECT id FROM repositories WHERE github_id = :id", id=repository.id)
                with self.harness.jobs.open(SYSTEM_CALLER) as uow:
                    facts = read_facts(uow, [row.id for row in rows])
                assert [each.stop for each in facts if each.needs_stop] == found, (repository.name, facts)
        if self.installation.permissions.get("organization_administration") == "write":
            ids = [row.id for row in self.harness.sql("SELECT id FROM organization_stops ORDER BY id")]
            with self.harness.jobs.open(SYSTEM_CALLER) as uow:
                shared = read_organization_facts(uow, ids)
            needed = {each.stop for each in shared if each.needs_stop}
            assert needed.issuperset(required_above(self.harness)), shared

    def _check_at_rest(self, github_id: int, branch: str, said: Said) -> None:
        """Check that a frozen branch is blocked or not, as GitHub answers, and that people are told."""
        ways = [way for way in ways_in(self.harness, github_id, branch, said.let_in) if way.sha not in said.let_in]
        state = said.states["facts"]
        entering = [way for way in ways if way.way not in REPLACING]
        about = f"{branch}: {said} {(entering or ways)[:5]}"
        assert state != "unknown", about
        # What other rules refuse besides does not count, such as one of another branch that people have moved here.
        by_others = state == "not_blocked" and not _requires_only_own(self.harness, github_id, branch)
        assert (state == "not_blocked") == bool(entering) or by_others, about
        if state == "not_blocked":
            assert any(severity == "critical" for _type, severity in attention(self.harness)), about

    @invariant()
    def no_surface_calls_blocked_what_github_accepts(self) -> None:
        earliest = self.now - MAX_READING_AGE
        untold = {number for number, at in self.untold.items() if at >= earliest}
        said = what_is_said(self.harness, untold)
        self.messages.dispatch()
        self.messages.add_claims(said, sure=not untold and not self.unsure)
        self.unsure = bool(untold)
        for (github_id, branch), one in said.items():
            wrong = false_claims(one, ways_in(self.harness, github_id, branch, one.let_in))
            assert not wrong, f"{branch}: {one} { {surface: ways[:3] for surface, ways in wrong.items()} }"

    def teardown(self) -> None:
        if self.installation is not None:
            self.act(suspend, self.installation, suspended=False)
        self.come_to_rest()


def _requires_only_own(harness: Harness, github_id: int, branch: str) -> bool:
    """True if the branch exists, and no check but its own ones is required there."""
    repository = harness.fake_github.world.repositories.get(github_id)
    if repository is None or branch not in repository.branches:
        return False
    own = {check_name(branch), *({"change-freeze/release/*"} if branch.startswith("release/") else ())}
    required = required_checks(rules_for_branch(harness.fake_github.world, repository, branch))
    return {context for context, _app in required} <= own


@pytest.mark.slow(20)
@pytest.mark.parametrize("histories", [1, pytest.param(3, marks=pytest.mark.check)])
def test_no_surface_calls_blocked_what_github_accepts(
    harness: Harness, shared_database: psycopg.Connection[Any], histories: int
) -> None:
    explore(Machine, histories, steps=40, harness=harness, database=shared_database)
