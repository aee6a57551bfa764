"""Withdrawal of the rulesets that we wrote at GitHub for an organisation that was deleted.

The lease of one organisation is renewed before each call. What fails for a while is retried for a day. After that, and
at once where only a person can help, the owners get a mail that lists the rulesets that are left. A process that dies
has recorded what it had removed; the next one removes the rest.
"""

from datetime import timedelta
from functools import partial

from sqlalchemy import select

from integrations.github import CALL_DEADLINE_SECONDS, GitHub
from models.organizations import Organization, Withdrawal
from services.core.unit_of_work import Caller, UnitOfWorkFactory, system_caller
from services.core.work_queue import Lease, LeaseLostError, RetryPolicy, WorkQueue
from services.enforcement.ruleset_removal import Remaining, withdraw
from services.github_access.backoff import backoff
from services.github_access.failures import WithheldError
from services.mail.outbox import enqueue_mail
from services.organizations.members import owner_addresses

MAX_ATTEMPTS = 30
"""They take about a day."""
WITHDRAWALS = WorkQueue(
    "withdraw",
    Withdrawal,
    select(Withdrawal.organization_id, Organization.name, Withdrawal.attempts)
    .join(Organization, Organization.id == Withdrawal.organization_id)
    .where(Organization.purged_at.is_(None))
    .order_by(Withdrawal.due_at, Withdrawal.organization_id),
    retry=RetryPolicy(timedelta(seconds=30), timedelta(hours=1)),
    call_timeout=timedelta(seconds=CALL_DEADLINE_SECONDS),
)


def withdraw_due(uow_factory: UnitOfWorkFactory, github: GitHub) -> bool:
    """Remove the rulesets of one deleted organisation; False if none is due."""
    return WITHDRAWALS.work_on_next(uow_factory, partial(_withdraw, uow_factory, github))


def _withdraw(uow_factory: UnitOfWorkFactory, github: GitHub, lease: Lease) -> None:
    caller = system_caller(lease.row.organization_id)
    try:
        left = withdraw(uow_factory, github, caller, lease)
    except WithheldError as error:
        with uow_factory.open(caller) as uow:
            lease.postpone(uow, uow.now + backoff(error, 0))
    else:
        _settle(uow_factory, caller, lease, left)


def _settle(uow_factory: UnitOfWorkFactory, caller: Caller, lease: Lease, left: list[Remaining]) -> None:
    """Finish, or retry later, or send the owners the list of what is left."""
    organization = lease.row
    with uow_factory.open(caller) as uow:
        retry = any(each.transient for each in left) and organization.attempts + 1 < MAX_ATTEMPTS
        if retry:
            lease.fail(uow, "rules_left", left[0].message, uow.now + WITHDRAWALS.retry.delay(organization.attempts))
            return
        settled = lease.fail(uow, "rules_left", left[0].message, None) if left else lease.release(uow)
        if not settled:
            raise LeaseLostError
        if not left:
            return
        lines = [_line(each) for each in left]
        uow.audit("organization.rules_left", ("organization", uow.organization, organization.name), left=lines)
        for address in owner_addresses(uow):
            enqueue_mail(uow, address, "rules_left", organization=organization.name, left=lines)


def _line(left: Remaining) -> str:
    which = f"ruleset {left.ruleset_id}" if left.ruleset_id is not None else "a ruleset"
    does = "keeps branches from being deleted and created"
    if left.check_name is not None:
        does = f"requires the check {left.check_name}"
    return f"{left.place}: {which}, which {does} ({left.message})"
