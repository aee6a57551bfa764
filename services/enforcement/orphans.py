"""Orphans: our rulesets over repositories that the installation does not cover any more.

We cannot write our check there, so such a rule blocks merging for ever, and one of frozen branches forbids deletion for
ever. Orphans are detected whenever repositories are compared with GitHub, and an alert is open until they are gone. We
may not change a repository's own ruleset any more; a repository is removed from the organisation's ruleset, unless a
freeze still covers it, once it has been gone for `MIN_REMOVED_FOR`.

Nothing is guessed: while GitHub does not show us a ruleset, its alert stays as it is.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import select, text

from integrations.github import ErrorKind, GitHub, GitHubError, InstallationClient, InstallationInfo
from integrations.github.rulesets import Rulesets
from models.enforcement import FrozenBranchRuleset, WrittenRuleset
from models.installations import Installation
from models.repositories import Repository
from rules.rulesets.plans import Change, Existing, Place, plan_without
from services.alerts.alerts import Alert, open_alerts, resolve_alerts
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from services.enforcement.facts import frozen_checks
from services.enforcement.setups import carry_out, save_ruleset
from services.github_access.client import page
from services.github_access.rate_limiter import background_client

logger = logging.getLogger(__name__)

TYPE = "orphaned_requirement"
MIN_REMOVED_FOR = timedelta(minutes=10)
"""A repository that was removed by mistake can be added again in this time, and the list is read again."""
HIDDEN = frozenset({ErrorKind.NOT_FOUND, ErrorKind.PERMISSION})


@dataclass(frozen=True, slots=True)
class _KnownRulesets:
    """What was read from the database."""

    account: str
    gone: dict[str, Repository]
    """Repositories that are not covered any more, by our id."""
    written: list[WrittenRuleset]
    """The rulesets of `gone`, and those of the organisation."""
    frozen: dict[str, int]
    """GitHub's ids of the rulesets that keep branches of `gone` from being deleted, by our id of the repository."""
    frozen_checks: frozenset[tuple[str, str]]
    now: datetime


@dataclass(slots=True)
class _Findings:
    """What was found on GitHub."""

    orphans: dict[str, Place] = field(default_factory=dict)
    """By repository: the place of the ruleset that still requires our check."""
    undeletable: set[str] = field(default_factory=set)
    """Those of `orphans` that have only the ruleset of their frozen branches."""
    hidden: set[str] = field(default_factory=set)
    """Repositories whose rulesets are not readable."""
    changed: list[tuple[WrittenRuleset, Change]] = field(default_factory=list)
    """Rulesets that others have removed, or that we removed or took repositories from: to be recorded."""


def report_orphans(uow_factory: UnitOfWorkFactory, github: GitHub, caller: Caller, installation_id: int) -> None:
    """Open an alert for every repository that is not covered any more and still has a ruleset of ours.

    Errors of GitHub leave everything as it is, until the next comparison.
    """
    with uow_factory.open(caller) as uow:
        known = _read(uow, installation_id)
    findings = _Findings()
    if known.gone and (known.written or known.frozen):
        try:
            _read_rulesets(
                background_client(uow_factory, github, installation_id),
                github.installation(installation_id),
                known,
                findings,
            )
        except GitHubError as error:
            logger.warning("rulesets over repositories that are not covered could not be read: %s", error)
            findings.hidden |= known.gone.keys()
    with uow_factory.open(caller) as uow:
        for row, change in findings.changed:
            save_ruleset(uow, installation_id, change, row.ruleset_id)
        open_alerts(
            uow,
            [
                _alert(uow, known.gone[repository_id], place, undeletable=repository_id in findings.undeletable)
                for repository_id, place in findings.orphans.items()
            ],
        )
        _resolve_others(uow, installation_id, findings.orphans.keys() | findings.hidden)


def _read(uow: UnitOfWork, installation_id: int) -> _KnownRulesets:
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
    naming = select(FrozenBranchRuleset.repository_id, FrozenBranchRuleset.ruleset_id).where(
        FrozenBranchRuleset.repository_id.in_(gone),
        FrozenBranchRuleset.ruleset_id.is_not(None),
        FrozenBranchRuleset.branch_names != [],
    )
    frozen = {repository_id: ruleset_id or 0 for repository_id, ruleset_id in uow.session.execute(naming)}
    return _KnownRulesets(account, gone, written, frozen, frozen_checks(uow), uow.now)


def _read_rulesets(
    client: InstallationClient, installation: InstallationInfo, known: _KnownRulesets, findings: _Findings
) -> None:
    above = [row for row in known.written if row.repository_id is None]
    below: defaultdict[str, list[WrittenRuleset]] = defaultdict(list)
    for row in known.written:
        if row.repository_id is not None:
            below[row.repository_id].append(row)
    for repository_id in sorted({*below, *known.frozen}):
        rows, frozen = below[repository_id], known.frozen.get(repository_id)
        _read_repository(client, installation, known.gone[repository_id], rows, frozen, findings)
    if above:
        _read_organization(client, installation, known, above, findings)


def _read_repository(
    client: InstallationClient,
    installation: InstallationInfo,
    repository: Repository,
    rows: Iterable[WrittenRuleset],
    frozen: int | None,
    findings: _Findings,
) -> None:
    """Read a repository's own rulesets; a public one still shows them to us. `frozen` is that of its frozen branches.

    One that is hidden although the installation covers all repositories was deleted, or has left the account.
    """
    place = Place("repository", repository.owner, repository.id, repository.full_name)
    try:
        now = client.repository(repository.github_id)
        listed = {each["id"] for each in client.repository_rulesets(now.owner, now.name).list()}
    except GitHubError as error:
        if error.kind not in HIDDEN:
            raise
        if installation.repository_selection == "selected":
            findings.orphans[repository.id] = place
        return
    if frozen in listed:
        findings.orphans[repository.id] = place
        findings.undeletable.add(repository.id)
    for row in rows:
        if row.ruleset_id in listed:
            findings.undeletable.discard(repository.id)
            findings.orphans[repository.id] = place
        else:
            findings.changed.append((row, Change("delete", place, row.check_name, ruleset_id=row.ruleset_id)))


def _read_organization(
    client: InstallationClient,
    installation: InstallationInfo,
    known: _KnownRulesets,
    rows: Iterable[WrittenRuleset],
    findings: _Findings,
) -> None:
    """Read the organisation's rulesets, and remove the repositories that are not covered, if we may."""
    client.renew_for(installation.permissions)
    place, access = Place("organization", known.account), client.organization_rulesets(known.account)
    may_write = installation.permissions.get("organization_administration") == "write"
    try:
        listed = {each["id"] for each in access.list()}
        found = [
            (row, Existing(row.ruleset_id, access.get(row.ruleset_id), row.forbids_deletion))
            for row in rows
            if row.ruleset_id in listed
        ]
    except GitHubError as error:
        if error.kind not in HIDDEN:
            raise
        findings.hidden |= known.gone.keys()
        return
    for row, existing in found:
        named = set(((existing.ruleset.get("conditions") or {}).get("repository_id") or {}).get("repository_ids") or ())
        over = [each for each in known.gone.values() if each.github_id in named]
        removable = {each.github_id for each in over if may_write and _is_removable(known, each, row.check_name)}
        change = plan_without(existing, place, row.check_name, removable)
        removed = removable if removable and _carried_out(access, change) else set()
        if removed:
            findings.changed.append((row, change))
        findings.orphans |= {each.id: place for each in over if each.github_id not in removed}


def _carried_out(access: Rulesets, change: Change) -> bool:
    """Write a change, and return whether we may; raise any other `GitHubError`."""
    try:
        carry_out(access, change)
    except GitHubError as error:
        if error.kind not in HIDDEN:
            raise
        return False
    return True


def _is_removable(known: _KnownRulesets, repository: Repository, check_name: str) -> bool:
    since = repository.removed_at
    return (
        (repository.id, check_name) not in known.frozen_checks
        and since is not None
        and since + MIN_REMOVED_FOR <= known.now
    )


def _alert(uow: UnitOfWork, repository: Repository, place: Place, *, undeletable: bool) -> Alert:
    where = "its own ruleset" if place.level == "repository" else "the organisation's ruleset"
    above = ("organizations", place.account, "settings", "rules")
    below = (*repository.full_name.split("/", 1), "settings", "rules")
    still = "requires our check there, so new pull requests cannot be merged. Remove our check or the repository from"
    if undeletable:
        still = "keeps branches there from being deleted and created. Delete"
    return Alert(
        key=_key(repository.id),
        type=TYPE,
        severity="warning",
        subject=("repository", repository.id, repository.full_name),
        message=(
            f"The installation does not cover {repository.full_name} any more, but {where} still {still} the ruleset, "
            "or add the repository to the installation again."
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


def _resolve_others(uow: UnitOfWork, installation_id: int, kept: Collection[str]) -> None:
    values = {"organization": uow.organization, "type": TYPE, "installation": installation_id}
    resolve_alerts(uow, [_key(each) for each in uow.session.scalars(_OPEN, values) if each not in kept])
