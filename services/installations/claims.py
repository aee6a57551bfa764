"""Claiming an installation: it is connected to an organisation once a user has proved to administer it.

GitHub passes the `state` of the install URL back (`redirect_states`), with the installation's id. An id alone proves
nothing, since anyone can put one into a URL: the `code` that GitHub passes along is exchanged for a user token. With it
the installation must be listed, and its account must be the user's own or one that they own. Being listed alone is not
enough, because everybody who can read a repository sees the installation. The token is revoked at the end and never
stored.

Accepted: GitHub is called before anything is locked, so its answers may be outdated by the commit. The sync that a
claim requests corrects this.

A claim also says whose account at GitHub it was: what is done with it there counts as that member's (`github_links`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, select, text

from integrations.github import ErrorKind, GitHub, GitHubError, InstallationInfo
from integrations.github.users import Account, UserAuthorization, UserClient
from models.installations import Installation
from models.organizations import Organization
from rules.access.permissions import CODE_HOST
from rules.errors import ServiceError, field_error
from services.core.unit_of_work import UnitOfWork
from services.enforcement_status.probe_requests import schedule_installation_probes
from services.github_access import client
from services.identity import github_links
from services.installations.status import fetch, read_back_installation, save_state
from services.installations.sync_requests import request_comparison
from services.installations.views import NOT_REMOVED, not_found, own, view
from services.organizations import organizations, redirect_states

_CLAIM = text("SELECT claim_installation(:id, :account, :now)")
# Rows of a removed installation of the same account move to the new one: GitHub gives each installation a new id.
_INHERIT = """
    WITH left_behind AS (
        SELECT t.{key} FROM {table} t JOIN installations f ON f.id = t.installation_id
        WHERE t.organization_id = :organization AND f.organization_id = :organization AND f.id <> :id
          AND f.state = 'removed' AND lower(f.account) = lower(:account)
        ORDER BY t.{key} FOR NO KEY UPDATE OF t
    )
    UPDATE {table} t SET installation_id = :id FROM left_behind l
    WHERE l.{key} = t.{key} AND t.organization_id = :organization
"""
_INHERITED = tuple(
    text(_INHERIT.format(table=table, key=key))
    for table, key in {"repositories": "id", "written_rulesets": "ruleset_id", "organization_stops": "id"}.items()
)


@dataclass(frozen=True, slots=True)
class _Proof:
    """What GitHub returned before anything was locked."""

    info: InstallationInfo
    account: Account
    """The account of the user who administers the installation."""
    gone: frozenset[int]
    """Installations of the organisation that no longer exist at GitHub."""


def install_url(uow: UnitOfWork) -> dict[str, Any]:
    """Return the URL for installing the App, with a new state. Raise `github_unavailable`."""
    slug = client.github(uow).settings.app_slug
    if not slug:
        raise ServiceError("github_unavailable", "The GitHub App is not configured (GITHUB_APP_SLUG is missing).")
    state, expires_at = redirect_states.issue(uow, "installation")
    organization = uow.session.get_one(Organization, uow.organization)
    uow.audit("installation.requested", ("organization", organization.id, organization.name))
    return {
        "url": client.page(uow, "apps", slug, "installations", "new", state=state),
        "expires_at": expires_at,
    }


def claim(uow: UnitOfWork, installation_id: int, state: str, code: str) -> dict[str, Any]:
    """Connect an installation to the organisation and request a sync; claiming it again changes nothing.

    Raise `invalid_parameter` (with pointers) if state or code is invalid, `installation_not_found` if the user cannot
    access it, `github_permission_denied` if they do not administer it, `invalid_state` if the organisation has another
    one, `installation_claimed_by_other_org`, and GitHub's own errors.
    """
    redirect_states.require_own(uow, "installation", state)
    github = client.github(uow)
    proof = _prove(uow, github, installation_id, code)
    organizations.lock_current(uow)
    redirect_states.consume_own(uow, "installation", state)
    _save_removals(uow, proof)
    if not uow.session.scalar(_CLAIM, {"id": proof.info.id, "account": proof.info.account_login, "now": uow.now}):
        message = (
            "Another organisation has claimed this installation. If it was yours and is deleted, uninstall the "
            "GitHub App and install it again."
        )
        raise ServiceError("installation_claimed_by_other_org", message)
    installation = uow.session.get_one(Installation, proof.info.id, with_for_update=True, populate_existing=True)
    target = ("installation", str(installation.id), proof.info.account_login)
    after = {"state": installation.state, "repositorySelection": proof.info.repository_selection}
    uow.audit("installation.claimed", target, before=None, after=after, provedBy=proof.account.login)
    github_links.link(uow, proof.account)
    save_state(uow, installation, proof.info)
    _request_rereads(uow, installation)
    return view(uow, installation)


def _prove(uow: UnitOfWork, github: GitHub, installation_id: int, code: str) -> _Proof:
    """Check with GitHub whose code it is and whether they administer the installation; no lock is held meanwhile."""
    authorization = github.installer_authorization
    if authorization is None:
        message = "Installations cannot be claimed: GITHUB_APP_CLIENT_ID is not configured."
        raise ServiceError("github_unavailable", message)
    others = uow.session.scalars(_others(uow, installation_id)).all()
    with _translate_errors(installation_id), _user_client(authorization, code) as user, user.shared_deadline():
        account = _administrator(user, installation_id)
        info = github.installation(installation_id)
        gone = frozenset(each.id for each in others if fetch(github, each.id) is None)
    return _Proof(info, account, gone)


@contextmanager
def _translate_errors(installation_id: int) -> Iterator[None]:
    """Translate GitHub errors about the installation or our App into codes of this operation."""
    try:
        yield
    except GitHubError as error:
        if error.kind in {ErrorKind.INSTALLATION_REMOVED, ErrorKind.NOT_FOUND}:
            raise not_found(installation_id) from None
        if error.kind is ErrorKind.APP_REFUSED:
            raise ServiceError("github_unavailable", error.message) from None
        raise


@contextmanager
def _user_client(authorization: UserAuthorization, code: str) -> Iterator[UserClient]:
    """Yield a client for the user whose code it is. Raise `invalid_parameter` if GitHub rejects the code."""
    try:
        with authorization.user_client(code=code) as user:
            yield user
    except GitHubError as error:
        if error.kind is not ErrorKind.REJECTED or "bad_verification_code" not in error.message:
            raise
        message = "is invalid, already used, or older than ten minutes"
        raise field_error("/code", message) from None


def _administrator(user: UserClient, installation_id: int) -> Account:
    """Return the account of a user who administers the installation's account. Raise if they do not."""
    account = user.account()
    listed = next((each for each in user.installations() if each.id == installation_id), None)
    if listed is None:
        raise not_found(installation_id)
    if listed.account_type == "Organization":
        administers = user.owns(listed.account_login)
    else:
        administers = listed.account_id == account.id
    if not administers:
        message = (
            f"{account.login} is not an owner of {listed.account_login} at GitHub, or GitHub does not disclose it. "
            "An owner must claim the installation."
        )
        raise ServiceError("github_permission_denied", message)
    return account


def _others(uow: UnitOfWork, installation_id: int) -> Select[Installation]:
    query = select(Installation).where(own(uow), NOT_REMOVED, Installation.id != installation_id)
    return query.order_by(Installation.id)


def _save_removals(uow: UnitOfWork, proof: _Proof) -> None:
    """Save the removal of installations that GitHub no longer has. Raise `invalid_state` if another one exists."""
    for other in uow.session.scalars(_others(uow, proof.info.id).with_for_update()):
        if other.id not in proof.gone:
            message = (
                f"This organisation already has the installation {other.id} of {other.account}. Uninstall it first."
            )
            raise ServiceError("invalid_state", message)
        with uow.impersonate(actor=CODE_HOST):
            save_state(uow, other, None)


def _request_rereads(uow: UnitOfWork, installation: Installation) -> None:
    """Move rows of a removed installation of the same account to this one, and have everything read again."""
    uow.session.flush()
    values = {"id": installation.id, "account": installation.account, "organization": uow.organization}
    for statement in _INHERITED:
        uow.session.execute(statement, values)
    request_comparison(uow, [installation.id])
    read_back_installation(uow, installation.id)
    schedule_installation_probes(uow, installation.id, rules_changed=True)
