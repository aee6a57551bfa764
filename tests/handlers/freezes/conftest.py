"""What the operations of freezes are asked about: two branches, and a freeze of one of them."""

import pytest
from sqlalchemy.orm import Session

from models.freezes import Freeze
from models.repositories import WatchedBranch
from tests import factories
from tests.handlers.callers import Tenant


@pytest.fixture
def api(acme: Tenant, session: Session) -> WatchedBranch:
    return factories.branch(session, acme.repository("api"))


@pytest.fixture
def freeze(acme: Tenant, session: Session, web: WatchedBranch) -> Freeze:
    """Return a freeze of the whole organisation, in force."""
    return factories.freeze(session, acme.organization, [web])
