"""A person without an organisation."""

import httpx
import pytest
from sqlalchemy.orm import Session

from tests.handlers.people import Person, newcomer


@pytest.fixture
def eve(session: Session, http: httpx.Client) -> Person:
    return newcomer(session, http)
