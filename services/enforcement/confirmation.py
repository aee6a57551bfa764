"""Confirmation: what an administrator sees of a setup, and what is written after they have confirmed it.

`services/enforcement/authorization.py` says how this is secured.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import update

from integrations.github import ErrorKind, GitHub, GitHubError
from integrations.github.users import UserAuthorization, UserClient
from models.enforcement import EnforcementSetup
from models.organizations import Organization
from models.repositories import Repository
from rules.access.permissions import Actor
from rules.errors import NotAuthorizedError
from rules.rulesets.plans import Change
from rules.web_addresses import ENFORCEMENT_AUTHORIZED, WebOrigin
from services.core.unit_of_work import Caller, UnitOfWorkFactory
from services.enforcement.authorization import (
    CODE,
    MAX_LISTED,
    caller_for_state,
    issue_authorization_url,
    pending_setup,
)
from services.enforcement.facts import read_facts_of_setup
from services.enforcement.own_rules import branches_without_rule
from services.enforcement.setups import RulesetWriter, branches_without_verdict, should_wait_for_verdicts
from services.enforcement.survey import Survey
from services.enforcement_status.probe_requests import schedule_probes
from services.github_access import client as github_client
from services.github_access.concurrency import in_parallel
from services.github_access.failures import require_confirmed, require_no_pause

MAX_WRITING_SECONDS = 15.0
"""After this time no further ruleset is written, so that the page responds within about twenty seconds."""
POLL_INTERVAL = 0.25


@dataclass(frozen=True, slots=True)
class RequestedChanges:
    """What a user is asked to confirm."""

    requested_by: str
    organization: str
    account: str
    expires_at: datetime
    changes: list[Change]
    by_app: bool
    """The App writes the rulesets with its own permission, now and later; otherwise the user's token does, once."""


@dataclass(slots=True)
class Result:
    """The result of a confirmation."""

    login: str
    account: str
    total: int = 0
    written: list[Change] = field(default_factory=list)
    left: list[Change] = field(default_factory=list)
    """The changes that were not written, and can be authorised at `again`."""
    problems: list[str] = field(default_factory=list)
    """Why changes were not written, for people."""
    again: str | None = None
    """The address at GitHub where what is left can be authorised."""
    queued: bool = False
    """A job writes the rulesets with the App's permission."""
    authorized: dict[str, str] = field(default_factory=dict)
    """The repositories that the user has authorised: id → `owner/name`."""


@dataclass(frozen=True, slots=True)
class _UsedAuthorization:
    """A setup whose authorisation is being used."""

    setup_id: str
    caller: Caller
    verifier: str


@dataclass(frozen=True, slots=True)
class Authorizations:
    """The two steps of the page: to show the request, and to carry it out."""

    uow_factory: UnitOfWorkFactory
    github: GitHub
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep

    def read_request(self, state: str) -> RequestedChanges:
        """Return the request; raise `NotAuthorizedError`, or `GitHubError` if it cannot be planned."""
        with self.uow_factory.open(caller_for_state(state)) as uow:
            setup = pending_setup(uow, state)
            organization = uow.session.get_one(Organization, uow.organization).name
            facts = read_facts_of_setup(uow, setup)
            require_confirmed(uow)
            require_no_pause(uow, facts.installation_id)
        client = self.github.client(facts.installation_id)
        with client.shared_deadline():
            survey = Survey(self.github, client, facts)
            changes = _writes(survey.plan_all())
        expires_at = setup.expires_at or setup.created_at
        by_app = survey.permits_all(changes)
        return RequestedChanges(
            str(setup.requested_by["name"]), organization, facts.account, expires_at, changes, by_app
        )

    def confirm(self, state: str, code: str) -> Result:
        """Record what the user with this code authorises, write it or queue it; raise as `read_request` does."""
        authorization = self.github.user_authorization
        if authorization is None:
            raise NotAuthorizedError("Not available", "This service has no client secret for GitHub.", 404)
        ends = self.clock() + MAX_WRITING_SECONDS
        taken = self._use_up(state)
        redirect_uri = self.uow_factory.ports[WebOrigin].url + ENFORCEMENT_AUTHORIZED
        try:
            with authorization.user_client(code=code, code_verifier=taken.verifier, redirect_uri=redirect_uri) as user:
                result = self._act(taken, user, ends)
        except GitHubError as error:
            self._record_failure(taken, error.code, error.message)
            if error.kind is ErrorKind.REJECTED:
                raise NotAuthorizedError("Not authorised", f"{error.message}. Apply again for a new address.") from None
            raise
        except NotAuthorizedError as error:
            self._record_failure(taken, CODE, error.message)
            raise
        return self._finish(taken, authorization, result)

    def _use_up(self, state: str) -> _UsedAuthorization:
        """Use up the state, which is valid for one confirmation, whatever its result; not while GitHub is paused."""
        with self.uow_factory.open(caller_for_state(state)) as uow:
            setup = pending_setup(uow, state, lock=True)
            require_confirmed(uow)
            require_no_pause(uow, github_client.installation_of(uow))
            verifier, setup.code_verifier = setup.code_verifier or "", None
            setup.state = "failed"  # until it is finished; stays if this process dies
            setup.last_error_code, setup.last_error_message = CODE, "The authorisation was not completed."
            caller = Caller(uow.organization, Actor(**setup.requested_by), "dashboard")
            return _UsedAuthorization(setup.id, caller, verifier)

    def _act(self, taken: _UsedAuthorization, user: UserClient, ends: float) -> Result:
        with self.uow_factory.open(taken.caller) as uow:
            facts = read_facts_of_setup(uow, uow.session.get_one(EnforcementSetup, taken.setup_id))
        with user.shared_deadline():
            login = user.login()
            survey = Survey(self.github, self.github.client(facts.installation_id), facts)
            changes = survey.plan_all()
            due = _writes(changes)
            by_app = survey.permits_all(due)
            _require_rights(user, login, due, as_owner=not by_app)
            authorized = {each: name for change in due for each, name in change.repositories.items()}
            result = Result(login, facts.account, len(due), left=due, authorized=authorized)
            if by_app:
                result.left, result.queued = [], bool(due)
                return result
            ruleset_writer = RulesetWriter(
                uow_factory=self.uow_factory,
                caller=taken.caller,
                setup_id=taken.setup_id,
                installation_id=facts.installation_id,
                api=user,
                renew=lambda _unit: None,
                details={"authorizedBy": login},
            )
            return self._write(ruleset_writer, result, changes, ends)

    def _write(self, ruleset_writer: RulesetWriter, result: Result, changes: list[Change], ends: float) -> Result:
        """Write until the time is over, first the rulesets whose heads have their verdicts; removals come last."""
        for change in changes:
            if change.recognized:
                ruleset_writer.commit(change, change.ruleset_id or 0)
        while result.left and self.clock() < ends:
            following = self._next(ruleset_writer, result)
            if following is None:
                self.pause(POLL_INTERVAL)
                continue
            result.left.remove(following)
            if following.removes and result.problems:
                continue
            try:
                ruleset_writer.write(following)
                result.written.append(following)
            except GitHubError as error:
                result.problems.append(f"{following.place.repository or following.place.account}: {error.message}")
                if error.transient:
                    result.left.insert(0, following)
                    break
        return result

    def _next(self, ruleset_writer: RulesetWriter, result: Result) -> Change | None:
        """Return the first change that is left and may be written now; None while all of them wait for verdicts.

        A removal waits for all changes before it: one of them may replace what it removes.
        """
        with self.uow_factory.open(ruleset_writer.caller) as uow:
            waiting: set[str] = set()
            if should_wait_for_verdicts(uow.session.get_one(EnforcementSetup, ruleset_writer.setup_id), uow.now):
                branch_ids = [branch_id for change in result.left for branch_id in change.branch_ids]
                waiting = branches_without_verdict(uow, branch_ids)
        first = next((each for each in result.left if waiting.isdisjoint(each.branch_ids)), None)
        removal_too_soon = first is not None and first.removes and first is not result.left[0]
        return None if removal_too_soon else first

    def _finish(self, taken: _UsedAuthorization, authorization: UserAuthorization, result: Result) -> Result:
        with self.uow_factory.open(taken.caller) as uow:
            setup = uow.session.get_one(EnforcementSetup, taken.setup_id, with_for_update=True)
            branch_ids = {each for change in result.written for each in change.branch_ids}
            target = ("organization", uow.organization, result.account)
            uow.audit(
                "enforcement.authorized",
                target,
                setupId=setup.id,
                authorizedBy=result.login,
                written=len(result.written),
                left=len(result.left),
                repositories=sorted(result.authorized.values()),
            )
            uow.session.execute(
                update(Repository)
                .where(Repository.organization_id == uow.organization, Repository.id.in_(result.authorized))
                .values(rulesets_authorized_by=result.login, rulesets_authorized_at=uow.now)
            )
            schedule_probes(uow, branch_ids.union(branches_without_rule(uow)))
            if result.queued:
                setup.state, setup.due_at, setup.total = "queued", uow.now, result.total
                setup.last_error_code = setup.last_error_message = None
                uow.wake("setup")
                return result
            setup.state, setup.finished_at = "failed" if result.problems or result.left else "done", uow.now
            problem = "; ".join(result.problems[:MAX_LISTED]) or (
                "Not everything could be written in time." if result.left else None
            )
            setup.last_error_message, setup.last_error_code = problem, CODE if problem else None
            if result.left:
                result.again = issue_authorization_url(uow, authorization, setup)
        return result

    def _record_failure(self, taken: _UsedAuthorization, code: str, message: str) -> None:
        with self.uow_factory.open(taken.caller) as uow:
            setup = uow.session.get_one(EnforcementSetup, taken.setup_id)
            setup.state, setup.finished_at = "failed", uow.now
            setup.last_error_code, setup.last_error_message = code, message


def _writes(changes: list[Change]) -> list[Change]:
    return [change for change in changes if change.action != "none"]


def _require_rights(user: UserClient, login: str, changes: list[Change], *, as_owner: bool) -> None:
    """Raise unless the user administers every repository; `as_owner`: and owns the organisation, for its rulesets."""
    accounts = sorted({change.place.account for change in changes if change.place.level == "organization"})
    owned = {account for account in accounts if user.owns(account)}
    others = [change for change in changes if change.place.account not in owned]
    below = sorted({name for change in others for name in change.repositories.values()})
    missing = [f"the organisation {account} (as an owner)" for account in accounts if as_owner and account not in owned]
    administered = in_parallel(lambda name: user.administers(*name.split("/", 1)), below)
    missing += [name for name, allowed in zip(below, administered, strict=True) if not allowed]
    if missing:
        more = f" and {len(missing) - MAX_LISTED} more" if len(missing) > MAX_LISTED else ""
        listed = ", ".join(missing[:MAX_LISTED])
        message = (
            f"{login} is not an administrator of {listed}{more}. Nothing was written. "
            "Apply again, and have an administrator open the new address."
        )
        raise NotAuthorizedError("Not an administrator", message, 403)
