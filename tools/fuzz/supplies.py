"""What can be used only once, or would cost us our own way in, made afresh for each call that needs it.

Written straight into the database of a sandbox: mailed links, and other people's consent, are to be had no other way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

from schemathesis import Case
from sqlalchemy import create_engine, delete, make_url, pool, update
from sqlalchemy.orm import Session

from models.identity import DeviceAuthorization, Invitation, OneTimeToken, ThrottledAttempt
from models.organizations import LoginSession, Organization, User
from models.schedules import Occurrence, Schedule
from rules.access.user_codes import new_user_code
from rules.freezes.pull_references import read_reference
from rules.ids import new_id
from services.core.password_hashing import PasswordHasher
from services.core.tokens import new_one_time_token, new_session_token, token_hash
from tests import factories
from tools.fuzz.excepting import new_pull, new_request

SOON = timedelta(minutes=5)
EXAMPLE_EMAIL, EXAMPLE_PASSWORD = "eve@example.com", "seven green bicycles"


@dataclass(frozen=True, slots=True)
class Supplies:
    """One organisation, in the database of a sandbox."""

    session: Session
    organization: Organization

    def forget_attempts(self) -> None:
        """Forget how often something was tried: everything here comes from one address."""
        self.session.execute(delete(ThrottledAttempt))

    def person_of_the_examples(self) -> None:
        """Make sure that the account of the contract's examples is there, with its password."""
        found = self.session.query(User).where(User.email == EXAMPLE_EMAIL).one_or_none()
        if found is None:
            person = self._person()
            person.email, person.password_hash = EXAMPLE_EMAIL, _example_hash()
            self.session.flush()

    def member(self) -> str:
        """Return the id of a new member."""
        person = self._person()
        factories.membership(self.session, self.organization, person)
        return person.id

    def key(self) -> str:
        """Return the id of a new API key."""
        return factories.api_key(self.session, self.organization, "freeze:read").row.id

    def schedule(self) -> str:
        """Return the id of a new schedule with a planned window."""
        row = self._schedule()
        factories.occurrence(self.session, row)
        return row.id

    def forget_windows(self) -> None:
        """Forget when schedules freeze: of many that are made nearly all would overlap with one before."""
        mine = update(Schedule).where(Schedule.organization_id == self.organization.id)
        self.session.execute(mine.values(windows=None))

    def invitation(self, email: str | None = None) -> str:
        """Return the id of a pending invitation."""
        row = Invitation(
            id=new_id("inv"),
            organization_id=self.organization.id,
            email=email or f"{new_id('new')}@example.com",
            role="member",
            invited_by=factories.SYSTEM,
            created_at=factories.now(),
            expires_at=factories.now() + SOON,
        )
        self.session.add(row)
        self.session.flush()
        return row.id

    def invitation_of(self, role: str) -> str:
        """Return the id of an invitation to another organisation for the sandbox's own person of this role."""
        elsewhere = Supplies(self.session, factories.organization(self.session, new_id("elsewhere")))
        email = f"{role}@{self.organization.slug}.example"
        return elsewhere.invitation(email)

    def session_token(self) -> str:
        """Return the session token of somebody who owns the organisation too."""
        return self._signed_in(self.organization)[0]

    def session_id(self, token: str) -> str:
        """Return the id of another sign-in of the person who is signed in with `token`."""
        mine = self.session.query(LoginSession).where(LoginSession.token_hash == token_hash(token))
        person = self.session.get_one(User, mine.one().user_id)
        return factories.login(self.session, person, self.organization).id

    def organization_to_delete(self) -> tuple[str, str]:
        """Return the session token of a new organisation's owner, and its name."""
        doomed = factories.organization(self.session, new_id("doomed"))
        return self._signed_in(doomed)[0], doomed.name

    def link(self, purpose: str) -> str:
        """Return a token as it is mailed; that of a sign-up goes with the password of the examples."""
        token, person = new_one_time_token(), self._person()
        subject = {"verify_email": f"{new_id('new')}@example.com", "invitation": self.invitation()}.get(purpose)
        details = {"name": "Eve", "passwordHash": _example_hash()} if purpose == "verify_email" else {}
        self.session.add(
            OneTimeToken(
                token_hash=token_hash(token),
                purpose=purpose,
                subject=subject or person.id,
                details=details,
                created_at=factories.now(),
                expires_at=factories.now() + SOON,
            )
        )
        self.session.flush()
        return token

    def device(self, *, approved: bool) -> tuple[str, str]:
        """Return the codes of a device: the person's and its own."""
        code, user_code = new_one_time_token(), new_user_code()
        self.session.add(
            DeviceAuthorization(
                device_code_hash=token_hash(code),
                user_code=user_code,
                client_id="freeze-cli",
                address="127.0.0.1",
                created_at=factories.now(),
                expires_at=factories.now() + SOON,
                interval_seconds=5,
                approved=approved or None,
                decided_at=factories.now() if approved else None,
                user_id=self.session.query(User).where(User.id == self.member()).one().id if approved else None,
                organization_id=self.organization.id if approved else None,
            )
        )
        self.session.flush()
        return user_code, code

    def window(self, *, in_force: bool) -> Occurrence:
        """Return a window of a new schedule that reaches nothing: in force since now, or still to come."""
        scope = {"type": "glob", "patterns": ["nobody/nothing"]}
        schedule = self._schedule(scope=scope, allow_overlap=True)
        if not in_force:
            return factories.occurrence(self.session, schedule)
        occurrence = factories.occurrence(self.session, schedule, starts_at=factories.now(), begun_at=factories.now())
        of: dict[str, Any] = {
            "source": "schedule",
            "schedule_id": schedule.id,
            "occurrence_id": occurrence.id,
            "scope": scope,
        }
        freeze = factories.freeze(self.session, self.organization, ends_at=occurrence.ends_at, **of)
        occurrence.freeze_id = freeze.id
        self.session.flush()
        return occurrence

    def _schedule(self, **columns: Any) -> Schedule:
        """Add a schedule that the sweeper takes for planned: it begins no window of its terms meanwhile."""
        planned_until = factories.now() + timedelta(days=365)
        return factories.schedule(self.session, self.organization, planned_until=planned_until, **columns)

    def _person(self) -> User:
        person = factories.user(self.session, new_id("new"))
        person.email_verified_at = factories.now()
        self.session.flush()
        return person

    def _signed_in(self, organization: Organization) -> tuple[str, User]:
        token, person = new_session_token(), self._person()
        factories.membership(self.session, organization, person, "owner")
        factories.login(self.session, person, organization, token_hash=token_hash(token))
        return token, person


@cache
def _example_hash() -> str:
    return PasswordHasher().hash(EXAMPLE_PASSWORD)


def open_supplies(database_url: str, organization_id: str) -> Supplies:
    """Connect to the database of a sandbox, as its owner; whatever is made is there at once."""
    url = make_url(database_url).set(drivername="postgresql+psycopg")
    engine = create_engine(url, poolclass=pool.NullPool, isolation_level="AUTOCOMMIT")
    session = Session(engine, expire_on_commit=False)
    return Supplies(session, session.get_one(Organization, organization_id))


Fresh = Callable[[Supplies, Case[Any], str], str | None]
"""Puts something fresh into a case that is sent with this token, or returns another token for it."""


def _in_path(name: str, prefix: str, make: Callable[[Supplies, str], str]) -> Fresh:
    """Replace an id that could be there."""

    def fresh(supplies: Supplies, case: Case[Any], token: str) -> None:
        if str(case.path_parameters.get(name, "")).startswith(prefix):
            case.path_parameters[name] = make(supplies, token)

    return fresh


def _in_body(name: str, make: Callable[[Supplies], str]) -> Fresh:
    """Replace a text that fits, so that negative cases stay negative."""

    def fresh(supplies: Supplies, case: Case[Any], token: str) -> None:  # noqa: ARG001 - every one is called alike
        if isinstance(case.body, dict) and len(str(case.body.get(name, ""))) > 5 and isinstance(case.body[name], str):
            case.body = {**case.body, name: make(supplies)}

    return fresh


def _as_somebody_else(supplies: Supplies, case: Case[Any], token: str) -> str:  # noqa: ARG001 - the same
    return supplies.session_token()


def _of_another_organization(supplies: Supplies, case: Case[Any], token: str) -> str:  # noqa: ARG001 - the same
    owner, name = supplies.organization_to_delete()
    if isinstance(case.body, dict) and isinstance(case.body.get("name"), str):
        case.body = {**case.body, "name": name}
    return owner


def _preview(supplies: Supplies, case: Case[Any], token: str) -> None:  # noqa: ARG001 - the same
    if len(str(case.query.get("token", ""))) == len(new_one_time_token()):
        case.query["token"] = supplies.link("invitation")


def _without_overlaps(supplies: Supplies, case: Case[Any], token: str) -> None:  # noqa: ARG001 - the same
    supplies.forget_windows()


def _freeze_of_a_window(supplies: Supplies) -> str:
    return str(supplies.window(in_force=True).freeze_id)


def _window(supplies: Supplies, case: Case[Any], token: str) -> None:  # noqa: ARG001 - the same
    if str(case.path_parameters.get("scheduleId", "")).startswith("sch_"):
        lifts = isinstance(case.body, dict) and case.body.get("action") == "lift"
        case.path_parameters["scheduleId"] = supplies.window(in_force=lifts).schedule_id


def _frozen_pull(supplies: Supplies, case: Case[Any], token: str) -> None:  # noqa: ARG001 - the same
    if not isinstance(case.body, dict) or read_reference(str(case.body.get("pullRequest", ""))) is None:
        return
    body = {**case.body, "pullRequest": new_pull(supplies.session, supplies.organization).url}
    case.body = {name: value for name, value in body.items() if name != "repo" or not isinstance(value, str)}


def _new_request(supplies: Supplies) -> str:
    return new_request(supplies.session, supplies.organization).id


def _of_a_request(supplies: Supplies, case: Case[Any], token: str) -> None:  # noqa: ARG001 - the same
    there = {name for name in ("pullRequestId", "requestGroupId") if str(case.query.get(name, ""))[3:4] == "_"}
    if there:
        found = new_request(supplies.session, supplies.organization)
        real = {"pullRequestId": found.pull_request_id, "requestGroupId": found.request_group_id}
        case.query |= {name: real[name] for name in there}


_EXCEPTION = _in_path("exceptionId", "exc_", lambda supplies, _: _new_request(supplies))
_MEMBER = _in_path("userId", "usr_", lambda supplies, _: supplies.member())
_KEY = _in_path("apiKeyId", "key_", lambda supplies, _: supplies.key())
_SCHEDULE = _in_path("scheduleId", "sch_", lambda supplies, _: supplies.schedule())
_INVITATION = _in_path("invitationId", "inv_", lambda supplies, _: supplies.invitation())

FOR_ANYBODY: dict[str, Fresh] = {
    "verify_email": _in_body("token", lambda supplies: supplies.link("verify_email")),
    "reset_password": _in_body("token", lambda supplies: supplies.link("reset_password")),
    "device_token": _in_body("device_code", lambda supplies: supplies.device(approved=True)[1]),
}
"""What operations need that ask for no credential."""
FOR_PEOPLE: dict[str, Fresh] = {
    "update_member": _MEMBER,
    "remove_member": _MEMBER,
    "rotate_api_key": _KEY,
    "revoke_api_key": _KEY,
    "revoke_invitation": _INVITATION,
    "get_invitation_link": _INVITATION,
    "accept_invitation": _in_path("invitationId", "inv_", lambda supplies, _: supplies.invitation_of("owner")),
    "preview_invitation": _preview,
    "device_approve": _in_body("userCode", lambda supplies: supplies.device(approved=False)[0]),
    "create_schedule": _without_overlaps,
    "import_schedules": _without_overlaps,
    "update_schedule": _SCHEDULE,
    "delete_schedule": _SCHEDULE,
    "skip_next_occurrence": _SCHEDULE,
    "run_schedule_now": _window,
    "thaw_override_freeze": _in_path("freezeId", "frz_", lambda supplies, _: _freeze_of_a_window(supplies)),
    "list_exceptions": _of_a_request,
    "list_exception_requests": _of_a_request,
    "create_exception": _frozen_pull,
    "create_exception_request": _frozen_pull,
    "get_exception": _EXCEPTION,
    "revoke_exception": _EXCEPTION,
    "decide_exception_request": _EXCEPTION,
    "revoke_session": _in_path("sessionId", "ses_", lambda supplies, token: supplies.session_id(token)),
    "sign_out": _as_somebody_else,
    "delete_organization": _of_another_organization,
}
"""The same where somebody has to be let in first."""
