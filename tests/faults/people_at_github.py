"""What people do at the simulated GitHub with pull requests, queues, rules and branches, as parts of state machines."""

from contextlib import suppress
from datetime import datetime
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from rules.freezes.check_names import check_name
from rules.rulesets.rulesets import desired_ruleset
from tests.faults.state_machines import BASES, HarnessMachine, some
from tools.fake_github.model import branches, pulls, queue, repositories
from tools.fake_github.model.installations import reaches
from tools.fake_github.model.merges import merge
from tools.fake_github.model.records import Installation, Repository, Ruleset
from tools.fake_github.model.refusals import Refusal
from tools.fake_github.model.renames import rename_branch
from tools.fake_github.model.rulesets import create_ruleset, delete_ruleset, update_ruleset
from tools.fake_github.seeding import queue_ruleset

told = st.sampled_from([True, False, False])
"""Whether what people did reaches the service before anything else happens."""
LOOSENED = ("delete", "disabled", "evaluate", "unpinned", "default", "bypass")
HOME = "acme"
"""The account of the organisation at GitHub."""


class ActingMachine(HarnessMachine):
    """People act, and it is known of what the service could not be told yet."""

    def __init__(self) -> None:
        super().__init__()
        self.untold: dict[int, datetime] = {}
        """By GitHub's id of a repository: when people last did something there that has not reached us."""

    @property
    def existing(self) -> list[Repository]:
        """The repositories that GitHub has now, in either account."""
        known = self.harness.fake_github.world.repositories
        return [each for each in self.repositories if each.id in known]

    def repository(self, which: int) -> Repository | None:
        """Choose one of those that exist."""
        found = self.existing
        return found[which % len(found)] if found else None

    @property
    def installation(self) -> Installation | None:
        """The installation of the App, if there is one."""
        world = self.harness.fake_github.world
        return world.installed.get(world.logins[HOME].id)

    def hears(self, github_id: int) -> bool:
        """Return whether GitHub sends us what happens in a repository, and we know for whom."""
        found, repository = self.installation, self.harness.fake_github.world.repositories.get(github_id)
        if found is None or repository is None or found.suspended_at or not reaches(found, repository):
            return False
        return bool(self.harness.sql("SELECT id FROM installations WHERE id = :id", id=found.id))

    def act(self, act: Any, *given: Any, **named: Any) -> bool:
        """Have people do something; False if GitHub refuses it."""
        try:
            self.harness.act(act, *given, **named)
        except Refusal:
            return False
        return True

    def change(self, changed: list[Repository], act: Any, *given: Any, **named: Any) -> bool:
        """Have people do something that may open a way into branches of these repositories."""
        if not self.act(act, *given, **named):
            return False
        self.untold |= dict.fromkeys((each.id for each in changed), self.now)
        return True

    def tell_if(self, told: bool) -> None:
        """Deliver what GitHub has written, and do what follows from it."""
        if told:
            self.we_are_told()

    def we_are_told(self) -> None:
        """Deliver what GitHub has written, and do what follows from it."""
        raise NotImplementedError

    def forget_untold(self) -> None:
        """Take everything as told that GitHub has told, or that we could read."""
        self.untold = {number: at for number, at in self.untold.items() if not self.hears(number)}


class PullRequests(ActingMachine):
    """People push, close, retarget and merge pull requests, and put them into queues."""

    @rule(which=some, told=told)
    def push(self, which: int, told: bool) -> None:
        found = self.any_pull_request(which)
        if found is not None and not found[0].archived:
            with suppress(Refusal):
                self.people.push(*found)
        self.tell_if(told)

    @rule(which=some, how=st.sampled_from(["close", "reopen", "merge", "enqueue", "enqueue", "dequeue"]), told=told)
    def handle_a_pull_request(self, which: int, how: str, told: bool) -> None:
        acts = {"close": pulls.close, "merge": merge, "enqueue": queue.enqueue, "dequeue": queue.dequeue}
        if (found := self.any_pull_request(which, "closed" if how == "reopen" else "open")) is not None:
            self.act(acts.get(how, pulls.reopen), *found)
        self.tell_if(told)

    @rule(which=some, base=st.sampled_from(BASES), same=st.booleans(), told=told)
    def propose_for_another_base(self, which: int, base: str, same: bool, told: bool) -> None:
        """Retarget a pull request; `same`: open another one with its head."""
        found = self.any_pull_request(which)
        if found is not None and same and len(found[0].pulls) <= 8:
            with suppress(Refusal):
                self.people.propose_the_same(*found, base)
        elif found is not None:
            self.act(pulls.edit, *found, base=base)
        self.tell_if(told)


class RulesAndBranches(ActingMachine):
    """People make, loosen and delete rules of repositories and of the organisation, and branches."""

    def _rulesets(self, which: int) -> list[Ruleset]:
        """List the rulesets of a repository, and of the organisation."""
        world, repository = self.harness.fake_github.world, self.repository(which)
        own = list(world.rules_of["Repository", repository.id].values()) if repository else []
        return [*own, *world.rules_of["Organization", world.logins[HOME].id].values()]

    @rule(which=some, how=st.sampled_from(LOOSENED), told=told)
    def loosen_a_rule(self, which: int, how: str, told: bool) -> None:
        """Delete or change a ruleset of a repository, or of the organisation."""
        if found := self._rulesets(which):
            ruleset = found[which // 2 % len(found)]
            changed = [each for each in self.existing if ruleset.source_id in {each.id, each.owner_id}]
            if how == "delete":
                self.change(changed, delete_ruleset, ruleset)
            else:
                self.change(changed, update_ruleset, ruleset, _loosened(ruleset)[how])
        self.tell_if(told)

    @rule(which=some, base=st.sampled_from(BASES), queue=st.booleans(), told=told)
    def write_a_rule(self, which: int, base: str, queue: bool, told: bool) -> None:
        """Require the check of a branch in a repository, or put a merge queue before it."""
        if (found := self.repository(which)) is not None:
            required = desired_ruleset(check_name(base), self.harness.fake_github.app_id)
            self._write("Repository", found.id, [found], queue_ruleset(base) if queue else required)
        self.tell_if(told)

    @rule(
        base=st.sampled_from(["main", "main", "release/2", "build"]),
        enforcement=st.sampled_from(["active", "active", "evaluate"]),
        names=st.sampled_from([["~ALL"], ["w*"], ["api"]]),
        told=told,
    )
    def write_a_rule_of_the_organization(self, base: str, enforcement: str, names: list[str], told: bool) -> None:
        """Require the check of a branch there, or another one (`build`), in repositories of some names."""
        body = desired_ruleset(check_name("main" if base == "build" else base), self.harness.fake_github.app_id)
        if base == "build":
            body["rules"] = [_foreign(each) for each in body["rules"]]
        chosen = {"repository_name": {"include": names, "exclude": []}}
        body |= {"name": f"Organization: {base}", "enforcement": enforcement}
        body["conditions"] = {**body["conditions"], **chosen}
        self._write("Organization", self.harness.fake_github.world.logins[HOME].id, self.existing, body)
        self.tell_if(told)

    def _write(self, level: str, number: int, changed: list[Repository], body: dict[str, Any]) -> None:
        names = {each.name for each in self.harness.fake_github.world.rules_of[level, number].values()}
        if body["name"] not in names and len(names) < 8:
            self.change(changed, create_ruleset, level, number, body)

    @rule(
        which=some,
        base=st.sampled_from(BASES),
        how=st.sampled_from(["delete or make", "rename", "rename back", "default"]),
        told=told,
    )
    def change_a_branch(self, which: int, base: str, how: str, told: bool) -> None:
        """Delete, make or rename a branch, or make it the default branch."""
        if (found := self.repository(which)) is not None:
            old, new = (f"{base}-old", base) if how == "rename back" else (base, f"{base}-old")
            if how == "default":
                self.change([found], repositories.set_default_branch, found, base)
            elif how != "delete or make":
                self.change([found], rename_branch, found, old, new)
            elif base not in found.branches:
                self.change([found], branches.create_branch, found, base, next(iter(found.branches.values())))
            elif base != found.default_branch:
                self.change([found], branches.delete_branch, found, base)
        self.tell_if(told)


def _foreign(each: dict[str, Any]) -> dict[str, Any]:
    """Return a rule that requires a check of another App, or of anybody."""
    if "required_status_checks" not in each.get("parameters", {}):
        return each
    return {**each, "parameters": {**each["parameters"], "required_status_checks": [{"context": "build"}]}}


def _loosened(ruleset: Ruleset) -> dict[str, dict[str, Any]]:
    """Return ways to loosen a ruleset, as what changes of it."""
    bypass = {"actor_id": 5, "actor_type": "RepositoryRole", "bypass_mode": "always"}
    unpinned = [{**each, "parameters": _unpinned(each)} if "parameters" in each else each for each in ruleset.rules]
    default = {"ref_name": {"include": ["~DEFAULT_BRANCH"], "exclude": []}}
    return {
        "disabled": {"enforcement": "disabled"},
        "evaluate": {"enforcement": "evaluate"},
        "unpinned": {"rules": unpinned},
        "default": {"conditions": {**ruleset.conditions, **default}},
        "bypass": {"bypass_actors": [bypass]},
    }


def _unpinned(each: dict[str, Any]) -> dict[str, Any]:
    if "required_status_checks" not in each["parameters"]:
        return dict(each["parameters"])
    checks = [{"context": check["context"]} for check in each["parameters"]["required_status_checks"]]
    return {**each["parameters"], "required_status_checks": checks}
