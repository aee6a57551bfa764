"""A client that a person may connect, known by its document, and that person."""

from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy.orm import Session

from models.oauth import OAuthClient
from models.organizations import User
from tests import factories
from tests.handlers.callers import Caller, Tenant
from tests.handlers.device_sign_in.requests import signed_in
from tests.handlers.oauth.requests import CLIENT_ID, DOCUMENT, Client


@pytest.fixture
def client(session: Session, http: httpx.Client, redis: Any) -> Client:
    """Return a client whose document is known and fresh."""
    now = factories.now()
    row = OAuthClient(client_id=CLIENT_ID, document=DOCUMENT, fetched_at=now, fresh_until=now + timedelta(days=1000))
    session.add(row)
    session.flush()
    return Client(http, session)


@pytest.fixture
def ada(session: Session, acme: Tenant) -> User:
    """Return an administrator of acme."""
    return factories.member(session, acme.organization, "admin")


@pytest.fixture
def person(session: Session, http: httpx.Client, ada: User, acme: Tenant) -> Caller:
    """Return Ada, signed in and active in acme."""
    return signed_in(session, http, ada, acme.organization)
