"""I25 under whatever happens in whatever order: what a surface calls blocked, the simulated GitHub refuses.

People make, loosen and delete rules, delete, create and rename branches, change the default branch, archive and rename
repositories, cut permissions and suspend the App; webhooks arrive or are lost; GitHub fails and limits; freezes,
windows, lifts and exceptions come in between. After every step GitHub is asked for each way into each frozen branch,
and every surface is read. What people did at GitHub and we were not told of yet is left out until we are told.

`tests/faults/state_machines.py` says how to explore.
"""

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from rules.errors import ServiceError
from rules.freezes.check_names import check_name
from rules.rulesets.rulesets import desired_ruleset
from services.core.unit_of_work import SYSTEM_CALLER, Caller
from services.enforcement.frozen_branches import write_due
from services.enforcement.probes import probe_due
from services.enforcement.setup_runs import apply_due
from services.maintenance.tasks import end_freezes, full_resync, review_enforcement
from services.pull_request_exceptions.decisions import grant, revoke
from services.pull_request_exceptions.expiry import end_exceptions
from services.pull_request_exceptions.requests import ExceptionInput
from services.reconcile.leases import acquire
from services.schedules.occurrence_start import start_windows
from tests import factories
from tests.factories.plans import BUSINESS
from tests.faults.state_machines import BASES, HarnessMachine, some
from tests.harness.blocking_surfaces import attention, false_claims, ways_in, what_is_said
from tests.harness.github_harness import ADA, Harness
from tests.harness.state_machines import explore
from tests.harness.webhook_queue import WebhookQueue, work
from tools.fake_github.model import branches, installations, pulls, repositories
from tools.fake_github.model.merges import merge
from tools.fake_github.model.protection import required_checks
from tools.fake_github.model.records import PullRequest, Repository
from tools.fake_github.model.refusals import Refusal
from tools.fake_github.model.renames import rename_branch
from tools.fake_github.model.rulesets import create_ruleset, delete_ruleset, rules_for_branch, update_ruleset

SCOPES: list[dict[str, Any]] = [
    {"type": "organization"},
    {"type": "organization", "branches": ["main"]},
    {"type": "repositories", "repositories": ["acme/api"]},
    {"type": "glob", "patterns": ["acme/w*"]},
    {"type": "branch", "repository": "acme/web", "branch": "main"},
    {"type": "branch", "repository": "acme/web", "branch": "release/2"},
]


class Machine(HarnessMachine):
    """Two repositories; in one of them an administrator has authorised the service to write rules."""

    named = ("api", "web")
    unprotected = (("web", "release/2"),)
    proposed = ("main", "release/1")

    def __init__(self) -> None:
        super().__init__()
        self.harness.fake_github.settings.primary_limits = False
        self.harness.sql("UPDATE repositories SET rulesets_authorized_at = created_at WHERE name = 'api'")
        self.harness.read_rules()
        self.untold: set[int] = set()
        """GitHub's ids of repositories where people did something that has not reached us."""
        self.untold_before: set[int] = set()
        """The same before the last step."""
        self.enforced: dict[str, int] = {}
        """How many times each freeze was called enforced, by its id."""

    # --- the service ----------------------------------------------------------------------------------------------

    def _unit(self) -> Any:
        return self.harness.uow_factory.open(Caller(self.harness.organization.id, ADA, "api", BUSINESS))

    @rule(which=some, hours=st.sampled_from([None, 1, 3]))
    def freeze(self, which: int, hours: int | None) -> None:
        with self.harness.jobs.open(SYSTEM_CALLER) as uow:
            ends_at = uow.now + timedelta(hours=hours) if hours else None
        if len(self._running()) < 3:
            with suppress(ServiceError):
                self.harness.freeze(SCOPES[which % len(SCOPES)], ends_at=ends_at)

    @precondition(lambda self: self._running())
    @rule(which=some)
    def lift(self, which: int) -> None:
        running = self._running()
        self.harness.lift(running[which % len(running)])

    @rule(which=some, minutes=st.sampled_from([-30, 10]))
    def plan_a_window(self, which: int, minutes: int) -> None:
        harness = self.harness
        with harness.jobs.open(SYSTEM_CALLER) as uow:
            starts_at: datetime = uow.now + timedelta(minutes=minutes)
        if harness.sql("SELECT count(*) FROM occurrences WHERE started_at IS NULL AND missed_at IS NULL")[0][0] < 2:
            schedule = factories.schedule(harness.session, harness.organization, scope=SCOPES[which % len(SCOPES)])
            factories.occurrence(harness.session, schedule, starts_at=starts_at, ends_at=starts_at + timedelta(hours=2))
            harness.session.commit()

    @rule(which=some, minutes=st.sampled_from([None, 15]), pin=st.booleans())
    def grant_an_exception(self, which: int, minutes: int | None, pin: bool) -> None:
        if (found := self._any(which)) is not None:
            with suppress(ServiceError), self._unit() as uow:
                until = uow.now + timedelta(minutes=minutes) if minutes else None
                name = f"{self.harness.fake_github.world.full_name(found[0])}#{found[1].number}"
                grant(uow, name, None, ExceptionInput("The hotfix that has to go in", until, pin))

    @rule(which=some)
    def revoke_an_exception(self, which: int) -> None:
        rows = self.harness.sql("SELECT id FROM exceptions WHERE revoked_at IS NULL ORDER BY id")
        if rows:
            with suppress(ServiceError), self._unit() as uow:
                revoke(uow, rows[which % len(rows)][0], None)

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
            acquire(uow)

    # --- people at GitHub: what they do to pull requests ------------------------------------------------------------

    def _any(self, which: int, state: str = "open") -> tuple[Repository, PullRequest] | None:
        every = [(each, pull) for each in self.repositories for pull in each.pulls.values()]
        found = [(each, pull) for each, pull in every if pull.state == state and not pull.merged_at]
        return found[which % len(found)] if found else None

    def _act(self, act: Any, *given: Any, **named: Any) -> bool:
        """Have people do something; False if GitHub refuses it."""
        world = self.harness.fake_github.world
        try:
            with world.lock:
                act(world, self.people.actor, *given, **named)
        except Refusal:
            return False
        return True

    @rule(which=some)
    def push(self, which: int) -> None:
        found = self._any(which)
        if found is not None and not found[0].archived:
            self.people.push(*found)

    @rule(which=some, reopen=st.booleans())
    def close_or_reopen(self, which: int, reopen: bool) -> None:
        if (found := self._any(which, "closed" if reopen else "open")) is not None:
            self._act(pulls.reopen if reopen else pulls.close, *found)

    @rule(which=some, base=st.sampled_from(BASES))
    def retarget(self, which: int, base: str) -> None:
        if (found := self._any(which)) is not None:
            self._act(pulls.edit, *found, base=base)

    @rule(which=some, base=st.sampled_from(BASES))
    def propose_the_same_head_for_another_base(self, which: int, base: str) -> None:
        found = self._any(which)
        if found is not None and len(found[0].pulls) <= 8:
            with suppress(Refusal):
                self.people.propose_the_same(*found, base)

    @rule(which=some)
    def merge_a_pull_request(self, which: int) -> None:
        if (found := self._any(which)) is not None:
            self._act(merge, *found)

    # --- people at GitHub: what they do to rules, branches, repositories and the App ---------------------------------

    def _change(self, which: int, act: Any, *given: Any, **named: Any) -> None:
        repository = self.repositories[which % 2]
        if self._act(act, *given, **named):
            self.untold.add(repository.id)

    def _rulesets(self, which: int) -> list[Any]:
        world = self.harness.fake_github.world
        return list(world.rules_of["Repository", self.repositories[which % 2].id].values())

    @rule(which=some, how=st.sampled_from(["delete", "disabled", "evaluate", "unpinned", "default", "bypass"]))
    def loosen_a_rule(self, which: int, how: str) -> None:
        found = self._rulesets(which)
        if not found:
            return
        ruleset = found[which // 2 % len(found)]
        bypass = {"actor_id": 5, "actor_type": "RepositoryRole", "bypass_mode": "always"}
        unpinned = [{**each, "parameters": _unpinned(each)} if "parameters" in each else each for each in ruleset.rules]
        changed = {
            "disabled": {"enforcement": "disabled"},
            "evaluate": {"enforcement": "evaluate"},
            "unpinned": {"rules": unpinned},
            "default": {"conditions": {"ref_name": {"include": ["~DEFAULT_BRANCH"], "exclude": []}}},
            "bypass": {"bypass_actors": [bypass]},
        }
        if how == "delete":
            self._change(which, delete_ruleset, ruleset)
        else:
            self._change(which, update_ruleset, ruleset, changed[how])

    @rule(which=some, base=st.sampled_from(BASES))
    def write_a_rule(self, which: int, base: str) -> None:
        body = desired_ruleset(check_name(base), self.harness.fake_github.app_id)
        names = {each.name for each in self._rulesets(which)}
        if body["name"] not in names and len(names) < 8:
            self._change(which, create_ruleset, "Repository", self.repositories[which % 2].id, body)

    @rule(which=some, base=st.sampled_from(BASES))
    def delete_or_make_a_branch(self, which: int, base: str) -> None:
        repository = self.repositories[which % 2]
        if base in repository.branches:
            if base != repository.default_branch:
                self._change(which, branches.delete_branch, repository, base)
        else:
            sha = next(iter(repository.branches.values()))
            self._change(which, branches.create_branch, repository, base, sha)

    @rule(which=some, base=st.sampled_from(BASES), back=st.booleans())
    def rename_a_branch(self, which: int, base: str, back: bool) -> None:
        repository = self.repositories[which % 2]
        old, new = (f"{base}-old", base) if back else (base, f"{base}-old")
        if old in repository.branches and new not in repository.branches:
            self._change(which, rename_branch, repository, old, new)

    @rule(which=some, base=st.sampled_from(BASES))
    def change_the_default_branch(self, which: int, base: str) -> None:
        repository = self.repositories[which % 2]
        if base in repository.branches:
            self._change(which, repositories.set_default_branch, repository, base)

    @rule(which=some)
    def archive_or_unarchive(self, which: int) -> None:
        repository = self.repositories[which % 2]
        self._change(which, repositories.set_archived, repository, archived=not repository.archived)

    @rule(which=some)
    def rename_a_repository(self, which: int) -> None:
        repository = self.repositories[which % 2]
        name = repository.name.removesuffix("-2") if repository.name.endswith("-2") else f"{repository.name}-2"
        self._change(which, repositories.rename, repository, name)

    @rule(suspended=st.booleans())
    def suspend_the_app(self, suspended: bool) -> None:
        [installation] = self.harness.fake_github.world.installations.values()
        self._act(installations.suspend, installation, suspended=suspended)

    @rule(permitted=st.booleans())
    def change_permissions(self, permitted: bool) -> None:
        [installation] = self.harness.fake_github.world.installations.values()
        permissions = dict(installations.PERMISSIONS)
        if not permitted:
            permissions.pop("administration")
        self._act(installations.accept_permissions, installation, permissions)

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
            self.untold.clear()

    def _settle(self) -> None:
        harness = self.harness
        for _ in range(30):
            work(harness)
            harness.sql("UPDATE enforcement_setups SET due_at = now() - interval '1 s' WHERE due_at IS NOT NULL")
            jobs = (write_due, apply_due, probe_due)
            if not sum(job(harness.jobs, harness.github) for job in jobs):
                return
        raise AssertionError("the service does not come to rest")

    @rule()
    def come_to_rest(self) -> None:
        harness = self.harness
        self.we_are_told()
        suspended = any(each.suspended_at for each in harness.fake_github.world.installations.values())
        for _ in range(2):  # leases run out, retries come due
            self.clock.offset += timedelta(minutes=45)
            self.sweep()
            full_resync(harness.jobs, timedelta(0))
            self._settle()
        self.sweep()
        self.all_delivered = True
        if suspended:
            return
        self.untold.clear()
        for (github_id, branch), said in what_is_said(harness).items():
            ways = [way for way in ways_in(harness, github_id, branch) if way.sha not in said.let_in]
            state = said.states["facts"]
            entering = [way for way in ways if way.way in {"merge", "push", "force_push"}]
            about = f"{branch}: {said} {entering or ways}"
            assert state != "unknown", about
            # What other rules refuse besides does not count, such as one of another branch that people have moved here.
            by_others = state == "not_blocked" and not _requires_only_own(harness, github_id, branch)
            assert (state == "not_blocked") == bool(entering) or by_others, about
            if state == "not_blocked":
                assert any(severity == "critical" for _type, severity in attention(harness)), about

    @invariant()
    def no_surface_calls_blocked_what_github_accepts(self) -> None:
        for (github_id, branch), said in what_is_said(self.harness).items():
            if github_id not in self.untold:
                wrong = false_claims(said, ways_in(self.harness, github_id, branch))
                assert not wrong, f"{branch}: {said} {wrong}"
        self._no_event_says_more()

    def _no_event_says_more(self) -> None:
        """Check that what was newly called enforced is so now."""
        found = self.harness.sql(
            "SELECT target ->> 'id', count(*) FROM audit_entries WHERE action = 'freeze.enforced' GROUP BY 1"
        )
        fresh = {freeze_id for freeze_id, entries in found if entries > self.enforced.get(freeze_id, 0)}
        self.enforced = dict(tuple(row) for row in found)
        for (_, branch), said in what_is_said(self.harness).items() if fresh else ():
            covering = {name.removeprefix("target of ") for name in said.states if name.startswith("target of ")}
            if covering & fresh and not self.untold | self.untold_before:
                assert said.states["facts"] in {"blocked", "partly"}, f"{branch}: {said}"
        self.untold_before = set(self.untold)

    def teardown(self) -> None:
        [installation] = self.harness.fake_github.world.installations.values()
        self._act(installations.suspend, installation, suspended=False)
        self.come_to_rest()

    def _running(self) -> list[str]:
        with self.harness.jobs.open(SYSTEM_CALLER) as uow:
            now = uow.now
        rows = self.harness.sql("SELECT id, ends_at FROM freezes WHERE ended_at IS NULL ORDER BY id")
        return [row[0] for row in rows if row[1] is None or row[1] > now]


def _unpinned(each: dict[str, Any]) -> dict[str, Any]:
    checks = [{"context": check["context"]} for check in each["parameters"].get("required_status_checks", ())]
    return {**each["parameters"], "required_status_checks": checks}


def _requires_only_own(harness: Harness, github_id: int, branch: str) -> bool:
    """True if the branch exists, and no check but its own ones is required there."""
    repository = harness.fake_github.world.repositories.get(github_id)
    if repository is None or branch not in repository.branches:
        return False
    own = {check_name(branch), *({"change-freeze/release/*"} if branch.startswith("release/") else ())}
    required = required_checks(rules_for_branch(harness.fake_github.world, repository, branch))
    return {context for context, _app in required} <= own


@pytest.mark.slow(20)
@pytest.mark.parametrize("histories", [4, pytest.param(8, marks=pytest.mark.check)])
def test_no_surface_calls_blocked_what_github_accepts(
    harness: Harness, shared_database: psycopg.Connection[Any], histories: int
) -> None:
    explore(Machine, histories, steps=40, harness=harness, database=shared_database)
