"""Deletion of an organisation: effective at once, while jobs remove what it left at GitHub.

Afterwards all its credentials get 410. Its freezes end, and the reconciler writes successful checks; its API keys,
connections, calendar feeds, invitations and setups are revoked; `services/offboarding/withdrawal.py` removes the rules
that we wrote, `services/slack/tokens.py` revokes the token of its Slack workspace, and `services/billing/sync.py`
cancels its subscriptions. Writes of its credentials are committed before the deletion or refused; what a job starts
meanwhile is ended by the sweep. After 30 days all data is erased (`services/offboarding/purge.py`).
"""

from datetime import timedelta
from typing import Any

from sqlalchemy import text

from models.freezes import IN_FORCE
from models.organizations import Organization, Withdrawal
from rules.errors import Detail, ServiceError
from services.billing.stripe_requests import customer_of, request_sync
from services.core.authorization_locks import wait_for_writes
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory, system_caller
from services.freezes.end import end_all_freezes
from services.mail.outbox import enqueue_mail
from services.organizations.members import owner_addresses
from services.organizations.organizations import lock_current

PURGE_DELAY = timedelta(days=30)
WITHDRAWAL_DELAY = timedelta(seconds=60)
"""Longer than a setup in progress can run, so that what it writes is removed as well."""
MAX_ORGANIZATIONS = 20
"""Organisations that one sweep handles."""

# Keys and grants that the deletion revokes have its time, by which their requests are answered with 410 instead of 401.
_END_KEYS = text("""
    UPDATE api_keys SET revoked_at = :deleted_at WHERE organization_id = :organization AND revoked_at IS NULL
""")
_END_GRANTS = text("""
    UPDATE oauth_grants g SET revoked_at = :deleted_at, revoked_why = 'organization_deleted'
    FROM (SELECT id FROM oauth_grants WHERE organization_id = :organization AND revoked_at IS NULL
          ORDER BY id FOR UPDATE) AS live
    WHERE g.id = live.id
""")
_END_FEEDS = text("""
    UPDATE calendar_feeds SET revoked_at = :now WHERE organization_id = :organization AND revoked_at IS NULL
""")
_END_SLACK = text("""
    UPDATE slack_connections SET removed_at = :now, due_at = :now, attempts = 0
    WHERE organization_id = :organization AND removed_at IS NULL
""")
_END_INVITATIONS = text("""
    UPDATE invitations SET revoked_at = :now
    WHERE organization_id = :organization AND accepted_at IS NULL AND revoked_at IS NULL
""")
_END_TOKENS = text("""
    UPDATE one_time_tokens SET used_at = :now WHERE organization_id = :organization AND used_at IS NULL
""")
_END_SETUPS = text("""
    UPDATE enforcement_setups
    SET state = 'failed', due_at = NULL, lease_token = NULL, lease_holder = NULL, lease_until = NULL,
        state_hash = NULL, code_verifier = NULL, finished_at = :now,
        last_error_code = 'organization_deleted',
        last_error_message = 'The organisation was deleted.'
    WHERE organization_id = :organization AND state IN ('queued', 'awaiting_authorization')
""")
_WITH_LEFTOVERS = text(f"""
    SELECT o.id FROM organizations o
    WHERE o.deleted_at IS NOT NULL AND o.purged_at IS NULL AND (
        EXISTS (SELECT FROM freezes f WHERE f.organization_id = o.id AND {IN_FORCE})
        OR EXISTS (SELECT FROM api_keys k WHERE k.organization_id = o.id AND k.revoked_at IS NULL)
        OR EXISTS (SELECT FROM oauth_grants g WHERE g.organization_id = o.id AND g.revoked_at IS NULL)
        OR EXISTS (SELECT FROM calendar_feeds c WHERE c.organization_id = o.id AND c.revoked_at IS NULL)
        OR EXISTS (SELECT FROM slack_connections s WHERE s.organization_id = o.id AND s.removed_at IS NULL)
        OR EXISTS (SELECT FROM invitations i WHERE i.organization_id = o.id
                   AND i.accepted_at IS NULL AND i.revoked_at IS NULL)
        OR EXISTS (SELECT FROM enforcement_setups s WHERE s.organization_id = o.id
                   AND s.state IN ('queued', 'awaiting_authorization')))
    ORDER BY o.id LIMIT :limit
""")  # noqa: S608 - a constant


def delete(uow: UnitOfWork, name: str) -> dict[str, Any]:
    """Delete the organisation of the unit of work and return it; `name` confirms the deletion.

    Raise `validation_failed` if the name differs, `organization_deleted` if it is already deleted.
    """
    wait_for_writes(uow, "organization", uow.organization)
    organization = lock_current(uow)
    if name != organization.name:
        message = "name does not match the name of this organisation"
        raise ServiceError("validation_failed", message, details=(Detail("/name", message),))
    organization.deleted_at = uow.now
    uow.session.add(Withdrawal(organization_id=organization.id, due_at=uow.now + WITHDRAWAL_DELAY, attempts=0))
    purged_at = uow.now + PURGE_DELAY
    after = {"deletedAt": uow.now, "purgedAt": purged_at}
    uow.audit("organization.deleted", _target(organization), before={"deletedAt": None, "purgedAt": None}, after=after)
    end_all(uow, organization)
    if (customer := customer_of(uow)) is not None:
        request_sync(uow, customer.id)
    for address in owner_addresses(uow):
        enqueue_mail(
            uow,
            address,
            "organization_deleted",
            organization=organization.name,
            by=uow.actor.name,
            deleted_at=uow.now,
            purged_at=purged_at,
        )
    return {
        "id": organization.id,
        "name": organization.name,
        "deleted_at": organization.deleted_at,
        "purged_at": purged_at,
    }


def end_all(uow: UnitOfWork, organization: Organization) -> None:
    """End freezes, keys, connections, feeds, workspace, invitations and pending setups of a deleted organisation."""
    uow.session.flush()
    end_all_freezes(uow, "organization_deleted")
    values = {"organization": uow.organization, "now": uow.now, "deleted_at": organization.deleted_at}
    for statement in (_END_KEYS, _END_GRANTS, _END_FEEDS, _END_SLACK, _END_INVITATIONS, _END_TOKENS, _END_SETUPS):
        uow.session.execute(statement, values)


def end_leftovers(uow_factory: UnitOfWorkFactory) -> int:
    """End what concurrent jobs created while their organisation was deleted; return the number of organisations."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        organizations = uow.session.scalars(_WITH_LEFTOVERS, {"now": uow.now, "limit": MAX_ORGANIZATIONS}).all()
    for organization_id in organizations:
        with uow_factory.open(system_caller(organization_id)) as uow:
            end_all(uow, uow.session.get_one(Organization, organization_id))
    return len(organizations)


def _target(organization: Organization) -> tuple[str, str, str]:
    return "organization", organization.id, organization.name
