"""Probes of everything, as a round of the resync requests them."""

from sqlalchemy import text

from services.core.unit_of_work import UnitOfWork
from services.enforcement_status.probe_requests import schedule_probes

_EVERY = text("""
    SELECT b.id FROM watched_branches b JOIN repositories r ON r.id = b.repository_id
    JOIN installations i ON i.id = r.installation_id WHERE i.state = 'active' AND r.removed_at IS NULL
""")


def schedule_all_probes(uow: UnitOfWork) -> None:
    """Schedule probes of every branch of every active installation."""
    schedule_probes(uow, uow.session.scalars(_EVERY).all())
