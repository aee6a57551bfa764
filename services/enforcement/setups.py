"""Setups: rows that remember which rulesets were asked for, and how far their writing has come.

`progress` of a row: `writing` is there while a ruleset is being written, so that one whose record was lost is
recognised; `headsAskedAt`, since when the heads of the branches are to have their verdicts; `position`, the repository
that the job did last; `failures`, what could not be written and why.
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
from models.enforcement import EnforcementSetup, WrittenRuleset
from models.queries import mark_dirty
from rules.ids import new_id
from rules.rulesets.plans import Change, Place, settled
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory

HEADS_WAIT = timedelta(minutes=15)
"""How long heads without a verdict hold a ruleset back; after that it is written all the same."""


class Writer(Protocol):
    """Who writes rulesets: the App's installation, or a person."""

    def repository_rulesets(self, owner: str, name: str) -> Rulesets:
        """Return access to a repository's rulesets."""

    def organization_rulesets(self, organization: str) -> Rulesets:
        """Return access to an organisation's rulesets."""


@dataclass(frozen=True, slots=True)
class Pen:
    """What writing one setup's rulesets takes."""

    uow_factory: UnitOfWorkFactory
    caller: Caller
    setup_id: str
    installation_id: int
    writer: Writer
    keep: Callable[[UnitOfWork], None]
    """Called in each transaction that records something; raises when the setup is no longer ours."""
    details: dict[str, Any]
    """What the audit tells besides, of each ruleset."""

    def write(self, change: Change) -> None:
        """Carry one change out at the code host, and record it; raises `GitHubError`.

        It is announced in our database first, so that one whose process died before the record is recognised.
        """
        if change.action != "none":
            with self.uow_factory.open(self.caller) as uow:
                self.keep(uow)
                note(uow, self.setup_id, writing=_announced(change))
        try:
            ruleset_id = carry_out(self.access(change.place), change)
        except GitHubError as error:
            if not error.maybe_applied:
                self._forget(change)
            raise
        self.settle(change, ruleset_id)

    def _forget(self, change: Change) -> None:
        """Take back the announcement of what the code host refused: a like one that appears later is not ours."""
        with self.uow_factory.open(self.caller) as uow:
            self.keep(uow)
            forget_announced(uow, change)

    def settle(self, change: Change, ruleset_id: int) -> None:
        """Record and audit what has been done."""
        with self.uow_factory.open(self.caller) as uow:
            self.keep(uow)
            record(uow, self.installation_id, change, ruleset_id, setupId=self.setup_id, **self.details)
            uow.session.execute(_COUNT, {"id": self.setup_id})

    def recover(self, announced: dict[str, Any]) -> bool:
        """Settle a change that was announced and not recorded, if it has happened, and tell whether it has.

        A creation is left to the plan.
        """
        change = recalled(announced)
        if change.action == "create" or change.ruleset_id is None:
            return False
        try:
            now: dict[str, Any] | None = settled(self.access(change.place).get(change.ruleset_id))
        except GitHubError as error:
            if error.kind is not ErrorKind.NOT_FOUND:
                raise
            now = None
        happened = now == change.after
        if happened:
            self.settle(change, change.ruleset_id)
        else:
            self._forget(change)
        return happened

    def access(self, place: Place) -> Rulesets:
        """Return the rulesets of a place."""
        if place.repository is None:
            return self.writer.organization_rulesets(place.account)
        return self.writer.repository_rulesets(place.account, place.repository.partition("/")[2])


def carry_out(access: Rulesets, change: Change) -> int:
    """Do at the code host what a change says, and return the ruleset's id; raises `GitHubError`."""
    if change.action == "create":
        return int(access.create(change.after or {})["id"])
    ruleset_id = change.ruleset_id or 0
    if change.action == "update":
        access.update(ruleset_id, change.after or {})
    elif change.action == "delete":
        try:
            access.delete(ruleset_id)
        except GitHubError as error:
            if error.kind is not ErrorKind.NOT_FOUND:
                raise
    return ruleset_id


def _announced(change: Change) -> dict[str, Any]:
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
        "disowned": change.disowned,
    }


def recalled(announced: dict[str, Any]) -> Change:
    """Return the change that was announced in a setup's `progress`."""
    place = Place(announced["level"], announced["account"], announced["repositoryId"], announced["repository"])
    return Change(
        action=announced["action"],
        place=place,
        check_name=announced["checkName"],
        ruleset_id=announced["rulesetId"],
        before=announced["before"],
        after=announced["after"],
        disowned=announced.get("disowned", False),
    )


_FORGET = text("""
    UPDATE enforcement_setups SET progress = progress - 'writing'
    WHERE organization_id = :organization AND progress -> 'writing' ->> 'level' = :level
      AND progress -> 'writing' ->> 'name' = :name
      AND progress -> 'writing' ->> 'repositoryId' IS NOT DISTINCT FROM CAST(:repository AS text)
""")
_COUNT = text(
    "UPDATE enforcement_setups SET written = written + 1, total = greatest(total, written + 1) WHERE id = :id"
)
_NOTE = text("UPDATE enforcement_setups SET progress = progress || CAST(:changes AS jsonb) WHERE id = :id")


def note(uow: UnitOfWork, setup_id: str, **changes: Any) -> None:
    """Remember members of a setup's `progress`."""
    uow.session.execute(_NOTE, {"id": setup_id, "changes": orjson.dumps(changes).decode()})


def forget_announced(uow: UnitOfWork, change: Change) -> None:
    """Take back every announcement of a ruleset of this name in this place: its writing is over."""
    place = change.place
    values = {"level": place.level, "name": change.name, "repository": place.repository_id}
    uow.session.execute(_FORGET, {"organization": uow.organization, **values})


def record(uow: UnitOfWork, installation_id: int, change: Change, ruleset_id: int, **details: Any) -> None:
    """Record and audit that a ruleset was written; one that was only recognised was created by us before."""
    place = change.place
    _own(uow, installation_id, change, ruleset_id)
    forget_announced(uow, change)
    uow.audit(
        _ACTIONS[change.action],
        ("ruleset", str(ruleset_id), change.name),
        level=place.level,
        place=place.repository or place.account,
        checkName=change.check_name,
        before=None if change.adopted else change.before,
        after=change.after,
        **details,
    )


_ACTIONS = {
    "create": "ruleset.created",
    "none": "ruleset.created",
    "update": "ruleset.updated",
    "delete": "ruleset.deleted",
}


def _own(uow: UnitOfWork, installation_id: int, change: Change, ruleset_id: int) -> None:
    """Remember that a ruleset is ours, or is no more; it takes the place of those that are gone from there."""
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
        "written_at": uow.now,
    }
    uow.session.execute(
        insert(WrittenRuleset)
        .values(level=place.level, ruleset_id=ruleset_id, **columns)
        .on_conflict_do_update(index_elements=["level", "ruleset_id"], set_=columns)
    )


def new_setup(uow: UnitOfWork, scope: dict[str, Any], state: str, total: int) -> EnforcementSetup:
    """Add the row of a setup that the caller asks for."""
    row = EnforcementSetup(
        id=new_id("stp"),
        organization_id=uow.organization,
        scope=scope,
        state=state,
        requested_by=uow.actor.as_json(),
        created_at=uow.now,
        total=total,
        progress={},
    )
    uow.session.add(row)
    return row


def ask_for_heads(uow: UnitOfWork, setup: EnforcementSetup, changes: Iterable[Change]) -> None:
    """Have the heads of the changes' branches judged, so that requiring the check blocks nobody by surprise."""
    branch_ids = {branch_id for change in changes for branch_id in change.branch_ids}
    uow.session.flush()
    if branch_ids:
        mark_dirty(uow.session, sorted(branch_ids), uow.now)
        uow.wake("reconcile")
    setup.progress = {**setup.progress, "headsAskedAt": uow.now.isoformat()}


def patient(setup: EnforcementSetup, now: datetime) -> bool:
    """Tell whether heads without a verdict still hold rulesets back."""
    asked = setup.progress.get("headsAskedAt")
    return asked is not None and now < datetime.fromisoformat(asked) + HEADS_WAIT


_UNREADY = text("""
    SELECT b.id FROM unnest(CAST(:ids AS text[])) AS k (id) JOIN watched_branches b ON b.id = k.id
    WHERE b.written_generation < b.wanted_generation
""")


def unready(uow: UnitOfWork, branch_ids: Collection[str]) -> set[str]:
    """Return the branches with heads that still lack their verdict."""
    return set(uow.session.scalars(_UNREADY, {"ids": list(branch_ids)}))
