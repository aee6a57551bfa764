"""Claiming: an installation of the App becomes an organisation's, once somebody has proved to administer it.

What holds: the `state` in the address has 256 random bits, of which the database keeps a hash; it is good for one hour,
for one claim, and for the person and the organisation that asked for it. An id alone proves nothing, since anybody can
write one into an address: the `code` that GitHub gives the person with the installation is exchanged for a token of
theirs, which has to list the installation, and its account has to be theirs, or they one of its owners. Being listed
would not do: everybody who can read a repository is. The token is revoked at the end and never stored.

Accepted: GitHub is asked before anything is locked, so what it told may have changed by the commit. The comparison of
repositories that a claim asks for notices.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Select, select, text

from integrations.github import ErrorKind, GitHub, GitHubError, InstallationInfo
from integrations.github.people import People, PersonClient
from models.installations import Installation
from models.organizations import Organization
from rules.access.permissions import CODE_HOST
from rules.errors import Detail, ServiceError
from services.core.unit_of_work import UnitOfWork
from services.enforcement_status.probe_requests import schedule_installation_probes
from services.github_access import client
from services.identity import one_time_tokens
from services.installations.status import ask, look_at_everything, record
from services.installations.sync_requests import request_comparison
from services.installations.views import NOT_REMOVED, own, unknown, view
from services.organizations import organizations

VALID = timedelta(hours=1)
_CLAIM = text("SELECT claim_installation(:id, :account, :now)")
# What belonged to a removed installation of the same account goes on under the new one: GitHub gives each its own id.
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
_HEIRLOOMS = tuple(
    text(_INHERIT.format(table=table, key=key))
    for table, key in {"repositories": "id", "written_rulesets": "ruleset_id"}.items()
)


@dataclass(frozen=True, slots=True)
class _Proof:
    """What GitHub told before anything was locked."""

    info: InstallationInfo
    login: str
    """Who administers the installation, by their name at GitHub."""
    gone: frozenset[int]
    """Installations that we took for the organisation's, and that are there no more."""


def install_url(uow: UnitOfWork) -> dict[str, Any]:
    """Return GitHub's address where the App is installed, carrying a fresh state; raises `github_unavailable`."""
    slug = client.github(uow).settings.app_slug
    if not slug:
        raise ServiceError("github_unavailable", "The GitHub App's name is not configured here (GITHUB_APP_SLUG).")
    state = one_time_tokens.issue(uow, "installation", _person(uow), VALID, organization_id=uow.organization)
    expires_at = uow.now + VALID
    organization = uow.session.get_one(Organization, uow.organization)
    uow.audit("installation.requested", ("organization", organization.id, organization.name))
    return {
        "url": client.page(uow, "apps", slug, "installations", "new", state=state),
        "expires_at": expires_at,
    }


def claim(uow: UnitOfWork, installation_id: int, state: str, code: str) -> dict[str, Any]:
    """Make an installation the organisation's, and have its repositories read; claiming it again changes nothing.

    Raises `invalid_parameter` (pointers) for a state or code that is not good, `installation_not_found` for what the
    person cannot reach, `github_permission_denied` for what they do not administer, `invalid_state` where the
    organisation has another one, `installation_claimed_by_other_org`, and what GitHub answers.
    """
    _require_own(uow, one_time_tokens.peek(uow, "installation", state))
    github = client.github(uow)
    proof = _prove(uow, github, installation_id, code)
    organizations.locked(uow)
    _require_own(uow, one_time_tokens.consume(uow, "installation", state))
    _forget_what_is_gone(uow, proof)
    if not uow.session.scalar(_CLAIM, {"id": proof.info.id, "account": proof.info.account_login, "now": uow.now}):
        message = (
            "Another organisation has claimed this installation. If that one is yours and was deleted, uninstall the "
            "App at GitHub and install it again."
        )
        raise ServiceError("installation_claimed_by_other_org", message)
    installation = uow.session.get_one(Installation, proof.info.id, with_for_update=True, populate_existing=True)
    target = ("installation", str(installation.id), proof.info.account_login)
    after = {"state": installation.state, "repositorySelection": proof.info.repository_selection}
    uow.audit("installation.claimed", target, before=None, after=after, provedBy=proof.login)
    record(uow, installation, proof.info)
    _take_over(uow, installation)
    return view(installation)


def _person(uow: UnitOfWork) -> str:
    if uow.caller.principal_id is None:
        raise RuntimeError("nobody is signed in")
    return uow.caller.principal_id


def _require_own(uow: UnitOfWork, token: Any) -> None:
    """Refuse a state that is unknown, used or too old, or was given to another person or organisation: all alike."""
    if token is None or token.subject != _person(uow) or token.organization_id != uow.organization:
        message = (
            "is not one that you were given for this organisation in the last hour, or was used already; "
            "ask GET /v1/github/install-url for a new address"
        )
        detail = Detail("/state", message, "invalid_parameter")
        raise ServiceError("invalid_parameter", f"state {message}.", details=(detail,))


def _prove(uow: UnitOfWork, github: GitHub, installation_id: int, code: str) -> _Proof:
    """Ask GitHub who the code stands for, and whether they administer the installation; no lock is held meanwhile."""
    people = github.installers
    if people is None:
        message = "Nobody can prove to administer an installation here: GITHUB_APP_CLIENT_ID is not configured."
        raise ServiceError("github_unavailable", message)
    others = uow.session.scalars(_others(uow, installation_id)).all()
    with _readable(installation_id), _exchanged(people, code) as person, person.together():
        login = _administrator(person, installation_id)
        info = github.installation(installation_id)
        gone = frozenset(each.id for each in others if ask(github, each.id) is None)
    return _Proof(info, login, gone)


@contextmanager
def _readable(installation_id: int) -> Iterator[None]:
    """Turn what GitHub does not show, and a fault of our own App, into codes that a claim answers."""
    try:
        yield
    except GitHubError as error:
        if error.kind in {ErrorKind.INSTALLATION_REMOVED, ErrorKind.NOT_FOUND}:
            raise unknown(installation_id) from None
        if error.kind is ErrorKind.APP_REFUSED:
            raise ServiceError("github_unavailable", error.message) from None
        raise


@contextmanager
def _exchanged(people: People, code: str) -> Iterator[PersonClient]:
    """Yield a client of the person whose code it is; refuses one that GitHub does not accept any more."""
    try:
        with people.acting(code=code) as person:
            yield person
    except GitHubError as error:
        if error.kind is not ErrorKind.REJECTED or "bad_verification_code" not in error.message:
            raise
        message = "was not given out by GitHub, or was used already, or is older than ten minutes"
        detail = Detail("/code", message, "invalid_parameter")
        raise ServiceError("invalid_parameter", f"code {message}.", details=(detail,)) from None


def _administrator(person: PersonClient, installation_id: int) -> str:
    """Return the login of a person who administers the installation's account; refuses everybody else."""
    account = person.account()
    listed = next((each for each in person.installations() if each.id == installation_id), None)
    if listed is None:
        raise unknown(installation_id)
    if listed.account_type == "Organization":
        administers = person.owns(listed.account_login)
    else:
        administers = listed.account_id == account.id
    if not administers:
        message = (
            f"{account.login} is no owner of {listed.account_login} at GitHub, or GitHub does not tell. "
            "An owner has to claim the installation."
        )
        raise ServiceError("github_permission_denied", message)
    return account.login


def _others(uow: UnitOfWork, installation_id: int) -> Select[Installation]:
    query = select(Installation).where(own(uow), NOT_REMOVED, Installation.id != installation_id)
    return query.order_by(Installation.id)


def _forget_what_is_gone(uow: UnitOfWork, proof: _Proof) -> None:
    """Record the removal of installations that nobody told us of; refuses a second one beside one that is there."""
    for other in uow.session.scalars(_others(uow, proof.info.id).with_for_update()):
        if other.id not in proof.gone:
            message = f"This organisation has the installation {other.id} of {other.account}; uninstall it first."
            raise ServiceError("invalid_state", message)
        person = uow.actor
        uow.bind_organization(uow.organization, CODE_HOST)
        record(uow, other, None)
        uow.bind_organization(uow.organization, person)


def _take_over(uow: UnitOfWork, installation: Installation) -> None:
    """Have everything read anew, and let what a removed installation of the same account left go on."""
    uow.session.flush()
    values = {"id": installation.id, "account": installation.account, "organization": uow.organization}
    for heirloom in _HEIRLOOMS:
        uow.session.execute(heirloom, values)
    request_comparison(uow, [installation.id])
    look_at_everything(uow, installation.id)
    schedule_installation_probes(uow, installation.id)
