"""Links of members to their accounts at GitHub, and the person behind an actor.

GitHub confirms whose an account is when a member connects the installation with it.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, func, or_, select

from integrations.github.users import Account
from models.api_keys import ApiKey
from models.identity import GitHubLink
from models.organizations import User
from rules.access.permissions import Actor
from rules.access.persons import Person
from services.core.unit_of_work import UnitOfWork


def link(uow: UnitOfWork, account: Account) -> None:
    """Record that an account at GitHub is the caller's, and nobody else's in the organisation any more."""
    user_id = uow.caller.signed_in_user
    of_either = or_(GitHubLink.account_id == account.id, GitHubLink.user_id == user_id)
    rows = uow.session.scalars(_own(uow).where(of_either).order_by(GitHubLink.user_id).with_for_update()).all()
    for row in rows:
        if (row.user_id, row.account_id) == (user_id, account.id):
            row.login = account.login
            return
        uow.session.delete(row)
    uow.session.flush()
    uow.session.add(
        GitHubLink(
            organization_id=uow.organization,
            user_id=user_id,
            account_id=account.id,
            login=account.login,
            created_at=uow.now,
        )
    )
    uow.session.flush()


def member_of_account(uow: UnitOfWork, account_id: int) -> Actor | None:
    """Return the member of the organisation whose account at GitHub it is; None if it is nobody's."""
    name = func.member_name(User.id, uow.organization).label("name")
    query = select(User.id, name).join(GitHubLink, GitHubLink.user_id == User.id)
    found = uow.session.execute(query.where(_in(uow), GitHubLink.account_id == account_id)).first()
    return None if found is None else Actor("user", found.id, found.name)


def person_behind(uow: UnitOfWork, actor: Mapping[str, Any]) -> Person:
    """Return the person behind an actor of the organisation, given as the contract's `Actor` object."""
    kind, actor_id = str(actor["type"]), actor.get("id")
    if kind == "api_key":
        of_key = select(ApiKey.created_by).where(ApiKey.id == actor_id, ApiKey.organization_id == uow.organization)
        maker = uow.session.scalar(of_key)
        if maker is not None and maker.get("type") == "user":
            kind, actor_id = "user", maker["id"]
    if kind == "code_host" and str(actor_id).isdecimal():
        member = member_of_account(uow, int(str(actor_id)))
        if member is not None:
            kind, actor_id = "user", member.id
    if kind != "user":
        return Person(kind, actor_id)
    account = uow.session.scalar(select(GitHubLink.account_id).where(_in(uow), GitHubLink.user_id == actor_id))
    return Person(kind, actor_id, None if account is None else str(account))


def _own(uow: UnitOfWork) -> Any:
    return select(GitHubLink).where(_in(uow))


def _in(uow: UnitOfWork) -> ColumnElement[bool]:
    return GitHubLink.organization_id == uow.organization
