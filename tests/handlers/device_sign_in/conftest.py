"""A program that wants to be signed in, and a person who may let it."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from sqlalchemy.orm import Session

from models.organizations import User
from tests import factories
from tests.handlers.callers import Caller, Tenant, answered
from tests.handlers.device_sign_in.requests import Device, signed_in


@pytest.fixture
def begin(http: httpx.Client, session: Session, redis: Any) -> Callable[[], Device]:
    """Return what begins the sign-in of a device."""

    def started() -> Device:
        answer = answered(http.post("/api/auth/device/code", data={"client_id": "freeze-cli"}))
        return Device(http, answer["device_code"], answer["user_code"])

    return started


@pytest.fixture
def device(begin: Callable[[], Device]) -> Device:
    return begin()


@pytest.fixture
def ada(session: Session, acme: Tenant) -> User:
    """Return a member of acme."""
    return factories.member(session, acme.organization)


@pytest.fixture
def person(session: Session, http: httpx.Client, ada: User, acme: Tenant) -> Caller:
    """Return Ada, signed in and active in acme."""
    return signed_in(session, http, ada, acme.organization)
