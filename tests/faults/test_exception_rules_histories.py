"""Exceptions by rule in whatever order things happen: GitHub merges exactly what a model of a few lines lets in.

People set labels and take them away, push, retarget, join and leave the team; administrators switch rules on and off
and edit them; somebody revokes what a rule has granted. Webhooks arrive at a rest, late, or never. The model knows who
did what when; it reads neither our facts nor our evaluation. The judge is what the simulated GitHub would merge.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests import factories
from tests.faults.state_machines import HarnessMachine, some
from tests.harness.github_harness import Harness
from tests.harness.pipeline import revoke
from tests.harness.state_machines import explore
from tests.harness.webhook_queue import full_resync, work
from tests.jobs.exception_rules.people import CAPTAINS, DOCS, HOTFIX, People
from tools.fake_github.model import branches
from tools.fake_github.model.protection import merge_violations
from tools.fake_github.model.records import PullRequest, Repository
from tools.fake_github.model.world import Actor as GitHubActor

PEOPLE = ("captain", "deputy", "author", "mallory")
FROZEN = ("main", "release/1")


@dataclass(slots=True)
class Known:
    """What the model knows of a pull request."""

    writers: set[str]
    docs_only: bool
    seen: bool = False
    """Whether the service has read this head and base."""
    labelled_by: str | None = None
    label_counts: bool = False
    """Whether the label was set on this head and base, after they had been read."""
    refused: set[str] = field(default_factory=set)
    """The rules whose exceptions for this head a person has revoked."""


class Machine(HarnessMachine):
    """One repository with a frozen `main` and `release/1`, and two rules."""

    named = ("web",)
    proposed = ("main", "main", "release/1")

    @initialize()
    def begin(self) -> None:
        harness = self.harness
        self.github = People(harness)
        self.captains = {"captain"}
        self.github.set_captains(*self.captains)
        self.ours: dict[str, dict[str, Any]] = {}
        self.known: dict[int, Known] = {}
        self.web: Repository = self.repositories[0]
        for pull in self.web.pulls.values():
            for path in list(self.web.commits[pull.head_sha].files):
                content = self.web.commits[pull.head_sha].files.pop(path)
                self.web.commits[pull.head_sha].files[f"docs/{pull.number}.md"] = content
            self.github.write(pull, "author")
            self.known[pull.number] = Known({"author"}, docs_only=True)
        self._add_rule("hotfix", HOTFIX, enabled=True)
        self._add_rule("docs", DOCS, enabled=False)
        harness.freeze({"type": "organization", "branches": list(FROZEN)})
        self.rest()

    def _add_rule(self, name: str, condition: dict[str, Any], *, enabled: bool) -> None:
        row = factories.exception_rule(
            self.harness.session,
            self.harness.organization,
            name=name,
            allow={"all": [condition]},
            identities={
                "accounts": self.github.accounts,
                "teams": {CAPTAINS: [self.github.acme, self.github.team]},
            },
            enabled=enabled,
        )
        self.harness.session.commit()
        self.ours[name] = {"id": row.id, "enabled": enabled}

    def _pull(self, which: int) -> PullRequest:
        found = [pull for pull in self.web.pulls.values() if pull.state == "open" and pull.number in self.known]
        return found[which % len(found)]

    def _changed(self, pull: PullRequest) -> None:
        """Forget what was known of the head or base."""
        known = self.known[pull.number]
        known.seen = known.label_counts = False

    # --- people at GitHub -----------------------------------------------------------------------------------------

    @rule(which=some, who=st.sampled_from(PEOPLE))
    def label(self, which: int, who: str) -> None:
        pull = self._pull(which)
        known = self.known[pull.number]
        if known.labelled_by is not None:
            return
        self.github.label(pull, who)
        known.labelled_by, known.label_counts = who, known.seen

    @rule(which=some, who=st.sampled_from(PEOPLE))
    def take_the_label_away(self, which: int, who: str) -> None:
        pull = self._pull(which)
        if self.known[pull.number].labelled_by is not None:
            self.github.unlabel(pull, who)
            self.known[pull.number].labelled_by = None

    @rule(which=some, who=st.sampled_from(PEOPLE), author=st.sampled_from(PEOPLE), docs=st.booleans())
    def push(self, which: int, who: str, author: str, docs: bool) -> None:
        pull = self._pull(which)
        sharing = [each for each in self.web.pulls.values() if each.head_ref == pull.head_ref and each.state == "open"]
        path = f"docs/more-{which}.md" if docs else f"src/more-{which}.py"
        world = self.harness.fake_github.world
        with world.lock:
            pusher, account = world.logins[who], world.logins[author]
            tip = self.web.branches[pull.head_ref]
            commit = branches.make_commit(world, self.web, account.id, "More", [tip], {path: "bW9yZQ=="})
            branches.push(world, GitHubActor(pusher), self.web, pull.head_ref, commit.sha)
        for each in sharing:
            known = self.known[each.number]
            known.writers |= {who, author}
            known.docs_only = known.docs_only and docs
            known.refused.clear()
            self._changed(each)

    @rule(which=some, base=st.sampled_from(FROZEN))
    def retarget(self, which: int, base: str) -> None:
        pull = self._pull(which)
        others = [each for each in self.web.pulls.values() if each.head_ref == pull.head_ref and each is not pull]
        if pull.base_ref not in FROZEN or base == pull.base_ref or any(each.base_ref == base for each in others):
            return
        self.people.retarget(self.web, pull, base)
        self._changed(pull)

    @rule(members=st.sets(st.sampled_from(PEOPLE)))
    def change_the_team(self, members: set[str]) -> None:
        self.github.set_captains(*sorted(members))
        self.captains = members

    @rule()
    def rename_the_label_and_back(self) -> None:
        """Whoever may rename labels could make `hotfix` of another one that a captain has set."""
        if any(known.labelled_by for known in self.known.values()):
            self.clock.offset += timedelta(seconds=2)
            self.harness.person("PATCH", "/repos/acme/web/labels/hotfix", {"new_name": "other"})
            self.harness.person("PATCH", "/repos/acme/web/labels/other", {"new_name": "hotfix"})
            self.clock.offset += timedelta(seconds=2)
            for known in self.known.values():
                known.label_counts = False

    # --- administrators -------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(["hotfix", "docs"]), enabled=st.booleans())
    def switch_a_rule(self, name: str, enabled: bool) -> None:
        self.ours[name]["enabled"] = enabled
        self.harness.sql(
            "UPDATE exception_rules SET enabled = :enabled WHERE id = :id", enabled=enabled, id=self.ours[name]["id"]
        )
        self.harness.make_due("wanted_generation = nextval('generations')")

    @rule(which=some)
    def revoke_what_a_rule_has_granted(self, which: int) -> None:
        found = self.harness.sql(
            "SELECT e.id, e.rule_name, e.head_sha, p.number "
            "FROM exceptions e JOIN pull_requests p ON p.id = e.pull_request_id "
            "WHERE e.rule_name IS NOT NULL AND e.revoked_at IS NULL AND e.expired_at IS NULL "
            "AND e.head_sha = p.head_sha ORDER BY e.id"
        )
        if not found:
            return
        exception_id, rule_name, head_sha, number = found[which % len(found)]
        revoke(self.harness, exception_id)
        if self.web.pulls[number].head_sha == head_sha:  # it counts for that head, into whatever base
            self.known[number].refused.add(rule_name)

    # --- what is right --------------------------------------------------------------------------------------------

    @rule()
    def webhooks_are_lost(self) -> None:
        if self.webhook_queue.take():
            self.all_delivered = False

    @rule()
    def rest(self) -> None:
        """Deliver what was not lost, or read everything again; then GitHub merges what the model lets in."""
        self.webhook_queue.run()
        self.clock.offset += timedelta(seconds=61)  # the members of teams are read again
        if not self.all_delivered:
            full_resync(self.harness)
        work(self.harness)
        self.all_delivered = True
        merges = {pull.number: self._merges(pull) for pull in self.web.pulls.values() if pull.number in self.known}
        for known in self.known.values():
            known.seen = True
        assert merges == {number: self._let_in(number) for number in merges}

    def _merges(self, pull: PullRequest) -> bool:
        world = self.harness.fake_github.world
        actor = GitHubActor(self.harness.fake_github.maintainer)
        return not merge_violations(world, actor, self.web, pull.base_ref, pull.head_sha, pull.review_decision)

    def _let_in(self, number: int) -> bool:
        known = self.known[number]
        if self.web.pulls[number].base_ref not in FROZEN:
            return True
        by_label = known.label_counts and known.labelled_by in self.captains - known.writers
        met = {"hotfix": by_label, "docs": known.docs_only}
        return any(met[name] and rule["enabled"] and name not in known.refused for name, rule in self.ours.items())

    def teardown(self) -> None:
        self.rest()


@pytest.mark.slow(10)
@pytest.mark.parametrize("histories", [2, pytest.param(6, marks=pytest.mark.check)])
def test_github_merges_what_rules_let_in_and_nothing_else(
    harness: Harness, shared_database: psycopg.Connection[Any], histories: int
) -> None:
    explore(Machine, histories, steps=25, harness=harness, database=shared_database)
