"""Whom a rule names: GitHub is asked for the ids of accounts and teams when the rule is saved.

A rule keeps these ids: who takes a name over later gets nothing of what the rule allows.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from sqlalchemy import select

from integrations.github import ErrorKind, GitHubError
from models.installations import Installation
from rules.errors import Detail, ServiceError
from rules.exceptions.language import Identities, Mention, Team, mentions_of
from services.core.unit_of_work import UnitOfWork
from services.github_access.client import client_of, installation_of


def find_identities(uow: UnitOfWork, allow: Mapping[str, Any]) -> Identities:
    """Return whom valid conditions name, as GitHub says now; it is asked outside of the transaction.

    Raise `validation_failed`, with a row for each place that names what is not there, the error of a missing
    installation, and GitHub's own.
    """
    mentions = list(mentions_of(allow))
    if not mentions:
        return Identities()
    lookup = _Lookup(uow)
    with uow.outside_transaction():
        lookup.ask(mentions)
    details = tuple(lookup.problems(mentions))
    if details:
        raise ServiceError("validation_failed", f"{details[0].message}.", details=details)
    return lookup.found()


class _Lookup:
    """What GitHub says about the names of one rule."""

    def __init__(self, uow: UnitOfWork) -> None:
        installation_of(uow)
        own = select(Installation).where(Installation.organization_id == uow.organization)
        active = uow.session.scalars(own.where(Installation.state == "active").order_by(Installation.id)).all()
        self._clients = {each.account.lower(): client_of(uow, each.id) for each in active}
        self._may_read_members = {each.account.lower() for each in active if "members" in each.permissions}
        self._accounts: dict[str, int | None] = {}
        self._teams: dict[str, Team | str] = {}
        """A team, or what is wrong with its name."""

    def ask(self, mentions: Iterable[Mention]) -> None:
        """Ask GitHub for each name once, within one deadline. Raise GitHubError."""
        client = next(iter(self._clients.values()))
        with ExitStack() as deadlines:
            for each in self._clients.values():
                deadlines.enter_context(each.shared_deadline())
            for mention in mentions:
                if mention.kind == "team" and mention.name not in self._teams:
                    self._teams[mention.name] = self._team(*mention.name.split("/"))
                elif mention.kind == "account" and mention.name not in self._accounts:
                    self._accounts[mention.name] = client.account_id(mention.name)

    def problems(self, mentions: Iterable[Mention]) -> Iterator[Detail]:
        """Yield a row for each place that names what is not there."""
        for mention in mentions:
            if mention.kind == "account":
                problem = "is no account at GitHub" if self._accounts[mention.name] is None else None
            else:
                team = self._teams[mention.name]
                problem = team if isinstance(team, str) else None
            if problem is not None:
                yield Detail(mention.path, f"{mention.name!r} {problem}", "validation_failed")

    def found(self) -> Identities:
        """Return the identities of names without problems."""
        accounts = {name: found for name, found in self._accounts.items() if found is not None}
        return Identities(accounts, {name: team for name, team in self._teams.items() if isinstance(team, Team)})

    def _team(self, organization: str, slug: str) -> Team | str:
        """Return a team, or what is wrong with its name."""
        client = self._clients.get(organization.lower())
        if client is None:
            return f"cannot be read: the GitHub App has no active installation on {organization}"
        may_not_read = f"cannot be read: the GitHub App lacks the permission members: read on {organization}"
        try:
            team_id, organization_id = client.team_id(organization, slug), client.account_id(organization)
        except GitHubError as error:
            if error.kind is not ErrorKind.PERMISSION:
                raise
            return may_not_read
        if team_id is not None and organization_id is not None:
            return Team(team_id, organization_id)
        return f"is no team of {organization}" if organization.lower() in self._may_read_members else may_not_read
