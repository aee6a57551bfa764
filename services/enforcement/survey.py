"""Surveys: read GitHub's rulesets in a scope, and plan the changes.

Nothing is read twice: an organisation's rulesets are listed once; those of a repository only if it gets one of its own;
and the rules of branches only until one is found that lacks ours. Nothing here holds a lock or changes anything.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from itertools import chain

from integrations.github import ErrorKind, GitHub, GitHubError, InstallationClient, InstallationInfo
from integrations.github.rulesets import Rulesets
from rules.rulesets.needs import (
    KnownRepository,
    Need,
    WantedRuleset,
    dispensable_branches,
    needs_of,
    sample_branch,
    wanted_rulesets,
)
from rules.rulesets.plans import Change, Existing, Found, Place, plan_removal, plan_ruleset
from rules.rulesets.rulesets import DELETION, requires_from
from services.enforcement.facts import OwnedRuleset, SetupFacts
from services.github_access.concurrency import in_parallel


class Survey:
    """Reads and plans one scope. Its methods raise `GitHubError`, and `invalid_glob` for an inexpressible pattern."""

    def __init__(self, github: GitHub, client: InstallationClient, facts: SetupFacts) -> None:
        self.facts = facts
        self.client = client
        self.installation: InstallationInfo = github.installation(facts.installation_id)
        self.client.renew_for(self.installation.permissions)
        self._app_id = github.settings.app_id
        self._organization_listed = self._organization_rulesets() if self._may_write_organization else None
        needs = [
            need
            for repository in facts.repositories.values()
            for need in needs_of(repository, with_patterns=facts.with_patterns)
        ]
        shared = (
            None
            if self._organization_listed is None
            else {each.check_name for each in self._owned("organization", None)}
        )
        self.wanted = wanted_rulesets(needs, self._app_id, shared, forbid_deletion=facts.forbid_deletion)
        self._needed = {(need.repository.repository_id, need.check_name) for need in needs}

    @property
    def level(self) -> str:
        """`organization` if a ruleset of the plan is the organisation's."""
        above = any(each.level == "organization" for each in self.wanted)
        return "organization" if above else "repository"

    @property
    def _may_write_organization(self) -> bool:
        permitted = self.installation.permissions.get("organization_administration") == "write"
        return self.facts.whole and self.installation.account_type == "Organization" and permitted

    def _permits(self, change: Change) -> bool:
        name = "organization_administration" if change.place.level == "organization" else "administration"
        return self.installation.permissions.get(name) == "write"

    def permits_all(self, changes: Iterable[Change]) -> bool:
        """True if the App itself may write all of the changes."""
        return all(self._permits(change) for change in changes)

    def plan_all(self) -> list[Change]:
        """Plan the whole scope in the order of writing: a replacement before what it replaces."""
        first = self.organization_changes
        of_repositories = in_parallel(self.repository_changes, self.repository_ids)
        return [*first, *chain.from_iterable(of_repositories), *self.organization_removals()]

    @cached_property
    def organization_changes(self) -> list[Change]:
        """The plan of the organisation's rulesets, without removals."""
        wanted = [each for each in self.wanted if each.level == "organization"]
        place = Place("organization", self.facts.account)
        listed = self._organization_listed or {}
        access = self.client.organization_rulesets(self.facts.account)
        return [self._plan(each, place, access, listed) for each in wanted]

    def organization_removals(self) -> list[Change]:
        """Plan the removal of our rulesets of the organisation that are not needed any more."""
        listed = self._organization_listed
        if listed is None:
            return []
        wanted = {each.check_name for each in self.wanted if each.level == "organization"}
        frozen = {check_name for _repository, check_name in self.facts.frozen_checks}
        place, access = Place("organization", self.facts.account), self.client.organization_rulesets(self.facts.account)
        gone = [each for each in self._owned("organization", None) if each.check_name not in wanted | frozen]
        return [self._removal(each, place, access) for each in gone if each.ruleset_id in listed.values()]

    @property
    def repository_ids(self) -> list[str]:
        """The repositories that have or need rulesets of their own, in order."""
        wanted = {each.repository.repository_id for each in self.wanted if each.repository}
        ours = {each.repository_id for each in self.facts.owned if each.repository_id in self.facts.repositories}
        return sorted(wanted | {each for each in ours if each and self.facts.whole})

    def repository_changes(self, repository_id: str) -> list[Change]:
        """Plan one repository's own rulesets; none for a repository that GitHub does not show us.

        GitHub accepts a limited number of them: those of deleted branches are removed first.
        """
        repository = self.facts.repositories[repository_id]
        access = self.client.repository_rulesets(repository.owner, repository.name)
        try:
            listed = {each["name"]: int(each["id"]) for each in access.list() if each["source_type"] == "Repository"}
        except GitHubError as error:
            if error.kind is ErrorKind.NOT_FOUND:
                return []
            raise
        place = Place("repository", repository.owner, repository_id, repository.full_name)
        deleted = self._deleted(repository)
        wanted = [each for each in self.wanted if each.repository is repository and each.check_name not in deleted]
        mine = [each for each in self._owned("repository", repository_id) if each.ruleset_id in listed.values()]
        freed = [
            replace(self._removal(each, place, access), deleted_branch=deleted[each.check_name])
            for each in mine
            if each.check_name in deleted
        ]
        planned = [self._plan(each, place, access, listed) for each in wanted]
        gone = [each for each in self._unneeded(repository, wanted) if each in mine and each.check_name not in deleted]
        return [*freed, *planned, *(self._removal(each, place, access) for each in gone)]

    def _deleted(self, repository: KnownRepository) -> dict[str, str]:
        """Return the ids of the branches that need no rule of their own now, because GitHub has none of that name.

        By the names of their checks. A branch that is frozen keeps its rule.
        """
        found = {
            branch.name: branch
            for branch in dispensable_branches(repository)
            if (repository.repository_id, branch.check_name) not in self.facts.frozen_checks
        }
        if found:
            for existing in self.client.branches(repository.owner, repository.name):
                found.pop(existing.name, None)
        return {branch.check_name: branch.branch_id for branch in found.values()}

    def _unneeded(self, repository: KnownRepository, wanted: Iterable[WantedRuleset]) -> list[OwnedRuleset]:
        """Return our rulesets of a repository whose checks are not needed, or required by the organisation's."""
        if not self.facts.whole or repository.archived:
            return []
        own_id = repository.repository_id
        required_above = {change.check_name for change in self.organization_changes if change.after is not None}
        needed = {name for repository_id, name in self._needed | self.facts.frozen_checks if repository_id == own_id}
        kept = {each.check_name for each in wanted} | (needed - required_above)
        return [each for each in self._owned("repository", own_id) if each.check_name not in kept]

    def _organization_rulesets(self) -> dict[str, int] | None:
        """Return the organisation's rulesets, name → GitHub's id; None if we may not read them."""
        try:
            listed = self.client.organization_rulesets(self.facts.account).list()
        except GitHubError as error:
            if error.kind in {ErrorKind.NOT_FOUND, ErrorKind.PERMISSION}:
                return None
            raise
        return {each["name"]: int(each["id"]) for each in listed}

    def _owned(self, level: str, repository_id: str | None) -> list[OwnedRuleset]:
        return [each for each in self.facts.owned if (each.level, each.repository_id) == (level, repository_id)]

    def _plan(self, wanted: WantedRuleset, place: Place, access: Rulesets, listed: dict[str, int]) -> Change:
        """Plan one ruleset; `listed` are the rulesets of the place: name → GitHub's id.

        A ruleset is read only if it is ours, or if we began to create one of its name and do not know whether we did.
        """
        owned = {each.ruleset_id for each in self._owned(place.level, place.repository_id)}
        mine = [
            each
            for each in self._owned(place.level, place.repository_id)
            if each.check_name == wanted.check_name and each.ruleset_id in listed.values()
        ]
        if mine:
            return plan_ruleset(wanted, place, Found(own=_existing(mine[0], access)))
        taken = {
            name: Existing(ruleset_id, access.get(ruleset_id))
            if (place.level, place.repository_id, name) in self.facts.unrecorded and ruleset_id not in owned
            else None
            for name, ruleset_id in listed.items()
        }
        planned = plan_ruleset(wanted, place, Found(taken=taken))
        forbids = planned.forbids_deletion
        if planned.action == "create" and all(self._covered(need, forbids_deletion=forbids) for need in wanted.needs):
            return plan_ruleset(wanted, place, Found(taken=taken, covered=True))
        return planned

    def _covered(self, need: Need, *, forbids_deletion: bool) -> bool:
        """True if active rules already require the check from us on every branch where it is needed.

        With `forbids_deletion` only if others also keep these branches from being deleted.
        """
        names = [branch.name for branch in need.branches]
        sample = sample_branch(need)
        names += [sample] if sample else []
        repository = need.repository
        for name in names:
            rules = self.client.branch_rules(repository.owner, repository.name, name)
            if not any(requires_from(rule, need.check_name, self._app_id) for rule in rules):
                return False
            if forbids_deletion and not any(rule["type"] == DELETION for rule in rules):
                return False
        return bool(names)

    def _removal(self, owned: OwnedRuleset, place: Place, access: Rulesets) -> Change:
        return plan_removal(_existing(owned, access), place, owned.check_name)


def _existing(owned: OwnedRuleset, access: Rulesets) -> Existing:
    return Existing(owned.ruleset_id, access.get(owned.ruleset_id), owned.forbids_deletion)
