"""What the operations of freezes are asked about besides: another branch."""

import pytest
from sqlalchemy.orm import Session

from models.repositories import WatchedBranch
from tests import factories
from tests.handlers.callers import Tenant


@pytest.fixture
def api(acme: Tenant, session: Session) -> WatchedBranch:
    return factories.branch(session, acme.repository("api"))
