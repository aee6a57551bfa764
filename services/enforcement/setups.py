"""Setups: rows that record which rulesets are to be written, and how many have been.

`progress` of a row has these members, each once there is something to say:

- `writing`: the write intent, kept while a ruleset is being written, so that one whose result was not recorded is
  recognised;
- `headsAskedAt`: when verdicts of the branches' heads were requested;
- `position`: the id of the last repository that the job has finished, in the order of the ids;
- `protectFromDeletion`: true if it adds a rule against deletion to the rulesets of single branches;
- `failures` and `failureCode`: what could not be written and why, and the code of the last of these errors;
- `oauthScope`: the scopes of OAuth that an administrator is asked for.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

import orjson
from sqlalchemy import delete, text
from sqlalchemy.dialects.postgresql import insert

from integrations.github import ErrorKind, GitHubError
from integrations.github.rulesets import Rulesets
from models.checks import mark_dirty
from models.enforcement import EnforcementSetup, WrittenRuleset
from rules.ids import new_id
from rules.rulesets.plans import Change, Place, normalized
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from services.enforcement_status.probe_requests import schedule_probes
from services.github_access.failures import require_confirmed
from services.repositories.watches import forget_deleted

MAX_VERDICT_WAIT = timedelta(minutes=15)
"""How long a ruleset waits for verdicts of the heads; after that it is written without them."""


class RulesetApi(Protocol):
    """A client that writes rulesets: the App's installation, or a person."""

    def repository_rulesets(self, owner: str, name: str) -> Rulesets:
        """Return access to a repository's rulesets."""

    def organization_rulesets(self, organization: str) -> Rulesets:
        """Return access to an organisation's rulesets."""


@dataclass(frozen=True, slots=True)
class RulesetWriter:
    """Writes and records the rulesets of one setup."""

    uow_factory: UnitOfWorkFactory
    caller: Caller
    setup_id: str
    installation_id: int
    api: RulesetApi
    renew: Callable[[UnitOfWork], None]
    """Called in each transaction that records something; raises if the lease of the setup is lost."""
    details: dict[str, Any]
    """Further details for the audit entry of each ruleset."""

    def write(self, change: Change) -> None:
        """Carry out one change on GitHub, and record it; raise `GitHubError` if that fails.

        The intent is saved first, so that the change is recognised if the process dies before recording it. The rule of
        a deleted branch stays if the branch was frozen meanwhile.
        """
        if change.deleted_branch is not None:
            with self.uow_factory.open(self.caller) as uow:
                if not forget_deleted(uow, change.deleted_branch):
                    return
        if change.action != "none":
            with self.uow_factory.open(self.caller) as uow:
                require_confirmed(uow)
                self.renew(uow)
                save_progress(uow, self.setup_id, writing=_intent_json(change))
        try:
            ruleset_id = carry_out(self.access(change.place), change)
        except GitHubError as error:
            if not error.maybe_applied:
                self._clear(change)
            raise
        self.commit(change, ruleset_id)

    def _clear(self, change: Change) -> None:
        """Clear the intent of a change that GitHub refused: a similar ruleset that appears later is not ours."""
        with self.uow_factory.open(self.caller) as uow:
            self.renew(uow)
            clear_intent(uow, change)

    def commit(self, change: Change, ruleset_id: int) -> None:
        """Record and audit a change that was carried out."""
        with self.uow_factory.open(self.caller) as uow:
            self.renew(uow)
            save_ruleset(uow, self.installation_id, change, ruleset_id, setupId=self.setup_id, **self.details)
            if change.deleted_branch is not None:
                schedule_probes(uow, [change.deleted_branch])
            uow.session.execute(_COUNT, {"id": self.setup_id})

    def recover(self, intent: dict[str, Any]) -> bool:
        """Record an intended change if it was carried out but not recorded; return whether it was.

        A creation is left to the plan.
        """
        change = load_intent(intent)
        if change.action == "create" or change.ruleset_id is None:
            return False
        try:
            at_github: dict[str, Any] | None = normalized(self.access(change.place).get(change.ruleset_id))
        except GitHubError as error:
            if error.kind is not ErrorKind.NOT_FOUND:
                raise
            at_github = None
        was_carried_out = at_github == change.after
        if was_carried_out:
            self.commit(change, change.ruleset_id)
        else:
            self._clear(change)
        return was_carried_out

    def access(self, place: Place) -> Rulesets:
        """Return access to the rulesets of a place."""
        if place.repository is None:
            return self.api.organization_rulesets(place.account)
        return self.api.repository_rulesets(place.account, place.repository.partition("/")[2])


def carry_out(access: Rulesets, change: Change) -> int:
    """Carry out a change on GitHub, and return the ruleset's id; raise `GitHubError` if that fails."""
    if change.action == "create":
        return int(access.create(change.after or {})["id"])
    ruleset_id = change.ruleset_id or 0
    if change.action == "update":
        access.update(ruleset_id, change.after or {})
    elif change.action == "delete":
        access.delete(ruleset_id)
    return ruleset_id


def _intent_json(change: Change) -> dict[str, Any]:
    place = change.place
    return {
        "action": change.action,
        "level": place.level,
        "account": place.account,
        "repositoryId": place.repository_id,
        "repository": place.repository,
        "checkName": change.check_name,
        "name": change.name,
        "rulesetId": change.ruleset_id,
        "before": change.before,
        "after": change.after,
        "unmanaged": change.unmanaged,
        "forbidsDeletion": change.forbids_deletion,
    }


def load_intent(intent: dict[str, Any]) -> Change:
    """Return the intended change from a setup's `progress`."""
    place = Place(intent["level"], intent["account"], intent["repositoryId"], intent["repository"])
    return Change(
        action=intent["action"],
        place=place,
        check_name=intent["checkName"],
        ruleset_id=intent["rulesetId"],
        before=intent["before"],
        after=intent["after"],
        unmanaged=intent.get("unmanaged", False),
        forbids_deletion=intent.get("forbidsDeletion", False),
    )


_CLEAR_INTENT = text("""
    UPDATE enforcement_setups SET progress = progress - 'writing'
    WHERE organization_id = :organization AND progress -> 'writing' ->> 'level' = :level
      AND progress -> 'writing' ->> 'name' = :name
      AND progress -> 'writing' ->> 'repositoryId' IS NOT DISTINCT FROM CAST(:repository AS text)
""")
_COUNT = text(
    "UPDATE enforcement_setups SET written = written + 1, total = greatest(total, written + 1) WHERE id = :id"
)
_SAVE_PROGRESS = text("UPDATE enforcement_setups SET progress = progress || CAST(:changes AS jsonb) WHERE id = :id")


def save_progress(uow: UnitOfWork, setup_id: str, **changes: Any) -> None:
    """Save members of a setup's `progress`."""
    uow.session.execute(_SAVE_PROGRESS, {"id": setup_id, "changes": orjson.dumps(changes).decode()})


def clear_intent(uow: UnitOfWork, change: Change) -> None:
    """Clear every intent of a ruleset of this name in this place: its write is over."""
    place = change.place
    values = {"level": place.level, "name": change.name, "repository": place.repository_id}
    uow.session.execute(_CLEAR_INTENT, {"organization": uow.organization, **values})


def save_ruleset(uow: UnitOfWork, installation_id: int, change: Change, ruleset_id: int, **details: Any) -> None:
    """Save and audit that a ruleset was written; one that was recognised had been created by us before."""
    place = change.place
    _save_ownership(uow, installation_id, change, ruleset_id)
    clear_intent(uow, change)
    uow.audit(
        _ACTIONS[change.action],
        ("ruleset", str(ruleset_id), change.name),
        level=place.level,
        place=place.repository or place.account,
        checkName=change.check_name,
        before=None if change.recognized else change.before,
        after=change.after,
        **details,
    )


_ACTIONS = {
    "create": "ruleset.created",
    "none": "ruleset.created",
    "update": "ruleset.updated",
    "delete": "ruleset.deleted",
}


def _save_ownership(uow: UnitOfWork, installation_id: int, change: Change, ruleset_id: int) -> None:
    """Save that a ruleset is ours, or no longer is; it replaces former ones for the same check and place."""
    place = change.place
    in_repository = (
        WrittenRuleset.repository_id == place.repository_id
        if place.repository_id
        else WrittenRuleset.repository_id.is_(None)
    )
    uow.session.execute(
        delete(WrittenRuleset).where(
            WrittenRuleset.organization_id == uow.organization,
            WrittenRuleset.level == place.level,
            in_repository,
            WrittenRuleset.check_name == change.check_name,
        )
    )
    if change.removes:
        return
    columns = {
        "organization_id": uow.organization,
        "installation_id": installation_id,
        "repository_id": place.repository_id,
        "check_name": change.check_name,
        "forbids_deletion": change.forbids_deletion,
        "written_at": uow.now,
    }
    uow.session.execute(
        insert(WrittenRuleset)
        .values(level=place.level, ruleset_id=ruleset_id, **columns)
        .on_conflict_do_update(index_elements=["level", "ruleset_id"], set_=columns)
    )


def new_setup(
    uow: UnitOfWork, scope: dict[str, Any], state: str, total: int, *, forbid_deletion: bool = False
) -> EnforcementSetup:
    """Add the row of a setup that the caller requests."""
    row = EnforcementSetup(
        id=new_id("stp"),
        organization_id=uow.organization,
        scope=scope,
        state=state,
        requested_by=uow.actor.as_json(),
        created_at=uow.now,
        total=total,
        progress={"protectFromDeletion": True} if forbid_deletion else {},
    )
    uow.session.add(row)
    return row


def queue_setup(
    uow: UnitOfWork, scope: dict[str, Any], total: int, *, forbid_deletion: bool = False
) -> EnforcementSetup:
    """Add a setup that a job writes as soon as the heads of its branches have their verdicts."""
    setup = new_setup(uow, scope, "queued", total, forbid_deletion=forbid_deletion)
    setup.due_at = uow.now
    setup.progress = {**setup.progress, "headsAskedAt": uow.now.isoformat()}
    uow.session.flush()
    uow.wake("setup")
    return setup


def request_verdicts(uow: UnitOfWork, setup: EnforcementSetup, changes: Iterable[Change]) -> None:
    """Request verdicts for the heads of the changes' branches, so that requiring the check blocks nothing yet."""
    branch_ids = {branch_id for change in changes for branch_id in change.branch_ids}
    uow.session.flush()
    if branch_ids:
        mark_dirty(uow.session, sorted(branch_ids), uow.now)
        uow.wake("reconcile")
    setup.progress = {**setup.progress, "headsAskedAt": uow.now.isoformat()}


def should_wait_for_verdicts(setup: EnforcementSetup, now: datetime) -> bool:
    """True if rulesets still wait for verdicts of the heads."""
    requested_at = setup.progress.get("headsAskedAt")
    return requested_at is not None and now < datetime.fromisoformat(requested_at) + MAX_VERDICT_WAIT


_WITHOUT_VERDICT = text("""
    SELECT DISTINCT b.id FROM watched_branches b
    JOIN checks c ON c.repository_id = b.repository_id AND c.name IN (b.check_name, b.pattern_check_name)
    WHERE b.id = ANY(CAST(:ids AS text[])) AND c.written_generation < c.wanted_generation
""")


def branches_without_verdict(uow: UnitOfWork, branch_ids: Collection[str]) -> set[str]:
    """Return the branches with heads that do not have their verdict yet."""
    return set(uow.session.scalars(_WITHOUT_VERDICT, {"ids": list(branch_ids)}))
