"""Orphans: rulesets of ours over repositories that the installation covers no more.

Nobody can write our check there, so such a rule blocks merging for ever. It is looked for whenever repositories are
compared with the code host, and told until it is gone. A repository's own ruleset we may not touch any more; out of an
organisation's ruleset the repository is taken, unless a freeze still covers it, once it has been gone for `SETTLED`.

Nothing is guessed: where the code host does not show us a ruleset, what was told of it before stands.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import select, text

from integrations.github import ErrorKind, GitHub, GitHubError, InstallationClient, InstallationInfo
from integrations.github.rulesets import Rulesets
from models.enforcement import WrittenRuleset
from models.installations import Installation
from models.repositories import Repository
from rules.rulesets.plans import Change, Existing, Place, plan_without
from services.alerts.alerts import Alert, open_alerts, resolve_alerts
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from services.enforcement.facts import held
from services.enforcement.setups import carry_out, record
from services.github_access.client import page
from services.github_access.rate_limiter import background_client

logger = logging.getLogger(__name__)

TYPE = "orphaned_requirement"
SETTLED = timedelta(minutes=10)
"""A repository that was taken out by mistake is put back within this; the list of repositories was read again since."""
HIDDEN = frozenset({ErrorKind.NOT_FOUND, ErrorKind.PERMISSION})


@dataclass(frozen=True, slots=True)
class _Known:
    """One reading of the database."""

    account: str
    gone: dict[str, Repository]
    """Repositories that are not covered any more, by our id."""
    written: list[WrittenRuleset]
    """Those of `gone`, and the organisation's."""
    held: frozenset[tuple[str, str]]
    now: datetime


@dataclass(slots=True)
class _Seen:
    """What the code host shows of it."""

    orphans: dict[str, Place] = field(default_factory=dict)
    """By repository: where the ruleset is that still requires our check."""
    hidden: set[str] = field(default_factory=set)
    """Repositories of which we cannot tell."""
    removed: list[tuple[WrittenRuleset, Change]] = field(default_factory=list)
    """Rulesets that somebody else has removed, or from which we took what nobody writes for."""


def look_for_orphans(uow_factory: UnitOfWorkFactory, github: GitHub, caller: Caller, installation_id: int) -> None:
    """Tell of every repository of the installation that is not covered and still has a ruleset of ours over it.

    What the code host fails to answer leaves everything as it was, until the next comparison.
    """
    with uow_factory.open(caller) as uow:
        known = _read(uow, installation_id)
    seen = _Seen()
    if known.gone and known.written:
        try:
            _look(
                background_client(uow_factory, github, installation_id),
                github.installation(installation_id),
                known,
                seen,
            )
        except GitHubError as error:
            logger.warning("rulesets over repositories that are not covered could not be read: %s", error)
            seen.hidden |= known.gone.keys()
    with uow_factory.open(caller) as uow:
        for row, change in seen.removed:
            record(uow, installation_id, change, row.ruleset_id)
        open_alerts(uow, [_item(uow, known.gone[number], place) for number, place in seen.orphans.items()])
        _clear(uow, installation_id, seen.orphans.keys() | seen.hidden)


def _read(uow: UnitOfWork, installation_id: int) -> _Known:
    repositories = uow.session.scalars(
        select(Repository).where(
            Repository.organization_id == uow.organization,
            Repository.installation_id == installation_id,
            Repository.removed_at.is_not(None),
        )
    )
    gone = {row.id: row for row in repositories}
    rows = uow.session.scalars(
        select(WrittenRuleset)
        .where(WrittenRuleset.organization_id == uow.organization, WrittenRuleset.installation_id == installation_id)
        .order_by(WrittenRuleset.level, WrittenRuleset.ruleset_id)
    )
    written = [row for row in rows if row.repository_id is None or row.repository_id in gone]
    account = uow.session.get_one(Installation, installation_id).account
    return _Known(account, gone, written, held(uow), uow.now)


def _look(client: InstallationClient, installation: InstallationInfo, known: _Known, seen: _Seen) -> None:
    above = [row for row in known.written if row.repository_id is None]
    below: defaultdict[str, list[WrittenRuleset]] = defaultdict(list)
    for row in known.written:
        if row.repository_id is not None:
            below[row.repository_id].append(row)
    for repository_id, rows in below.items():
        _look_below(client, installation, known.gone[repository_id], rows, seen)
    if above:
        _look_above(client, installation, known, above, seen)


def _look_below(
    client: InstallationClient,
    installation: InstallationInfo,
    repository: Repository,
    rows: Iterable[WrittenRuleset],
    seen: _Seen,
) -> None:
    """Look at a repository's own rulesets; a public one still shows them to us.

    One that is hidden though the installation covers all of them was deleted, or has left the account.
    """
    place = Place("repository", repository.owner, repository.id, repository.full_name)
    try:
        now = client.repository(repository.github_id)
        listed = {each["id"] for each in client.repository_rulesets(now.owner, now.name).list()}
    except GitHubError as error:
        if error.kind not in HIDDEN:
            raise
        if installation.repository_selection == "selected":
            seen.orphans[repository.id] = place
        return
    for row in rows:
        if row.ruleset_id in listed:
            seen.orphans[repository.id] = place
        else:
            seen.removed.append((row, Change("delete", place, row.check_name, ruleset_id=row.ruleset_id)))


def _look_above(
    client: InstallationClient,
    installation: InstallationInfo,
    known: _Known,
    rows: Iterable[WrittenRuleset],
    seen: _Seen,
) -> None:
    """Look at the organisation's rulesets, and take out of them whatever is not covered, where we may."""
    client.renew_for(installation.permissions)
    place, access = Place("organization", known.account), client.organization_rulesets(known.account)
    may_write = installation.permissions.get("organization_administration") == "write"
    try:
        listed = {each["id"] for each in access.list()}
        found = [
            (row, Existing(row.ruleset_id, access.get(row.ruleset_id))) for row in rows if row.ruleset_id in listed
        ]
    except GitHubError as error:
        if error.kind not in HIDDEN:
            raise
        seen.hidden |= known.gone.keys()
        return
    for row, existing in found:
        named = set(((existing.ruleset.get("conditions") or {}).get("repository_id") or {}).get("repository_ids") or ())
        over = [each for each in known.gone.values() if each.github_id in named]
        settled = {each.github_id for each in over if may_write and _settled(known, each, row.check_name)}
        change = plan_without(existing, place, row.check_name, settled)
        taken_out = settled if settled and _carried_out(access, change) else set()
        if taken_out:
            seen.removed.append((row, change))
        seen.orphans |= {each.id: place for each in over if each.github_id not in taken_out}


def _carried_out(access: Rulesets, change: Change) -> bool:
    """Write a change, and tell whether we may; raises `GitHubError` where we cannot tell."""
    try:
        carry_out(access, change)
    except GitHubError as error:
        if error.kind not in HIDDEN:
            raise
        return False
    return True


def _settled(known: _Known, repository: Repository, check_name: str) -> bool:
    since = repository.removed_at
    return (repository.id, check_name) not in known.held and since is not None and since + SETTLED <= known.now


def _item(uow: UnitOfWork, repository: Repository, place: Place) -> Alert:
    where = "its own ruleset" if place.level == "repository" else "the organisation's ruleset"
    above = ("organizations", place.account, "settings", "rules")
    below = (*repository.full_name.split("/", 1), "settings", "rules")
    return Alert(
        key=_key(repository.id),
        type=TYPE,
        severity="warning",
        subject=("repository", repository.id, repository.full_name),
        message=(
            f"The installation does not cover {repository.full_name} any more, and {where} requires our check there: "
            "nobody writes it, so new pull requests cannot merge. Take our check or the repository out of the ruleset, "
            "or let the installation cover the repository again."
        ),
        action=("Open the rulesets", page(uow, *(below if place.level == "repository" else above))),
    )


def _key(repository_id: str) -> str:
    return f"{TYPE} {repository_id}"


_OPEN = text("""
    SELECT a.subject ->> 'id' FROM attention_items a
    JOIN repositories r ON r.id = a.subject ->> 'id' AND r.organization_id = a.organization_id
    WHERE a.organization_id = :organization AND a.type = :type AND a.cleared_at IS NULL
      AND r.installation_id = :installation
""")


def _clear(uow: UnitOfWork, installation_id: int, kept: Collection[str]) -> None:
    values = {"organization": uow.organization, "type": TYPE, "installation": installation_id}
    resolve_alerts(uow, [_key(each) for each in uow.session.scalars(_OPEN, values) if each not in kept])
