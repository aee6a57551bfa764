"""A third-party OAuth client signs a device in, using the metadata only, and calls the API as the person."""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from app.main import create_app
from schemas.contract import CONTRACT_PATH
from services.core.tokens import new_session_token, token_hash
from tests import factories
from tests.harness.product import address_of, product_config, product_parts
from tests.harness.servers import client_of, serving
from tests.harness.sessions import committing
from tests.harness.wakeups import RecordedWakeups

pytestmark = [pytest.mark.check, pytest.mark.slow(3)]
PROGRAM = Path(__file__).with_name("device_sign_in.mjs")
PATIENCE = 60.0


@pytest.fixture
def node() -> str:
    """Return where Node is; without it, or its modules, there is nothing to be tested."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("node is not on this machine")
    if not (CONTRACT_PATH.parent / "node_modules" / "openid-client").exists():
        pytest.skip("the npm tools are not installed (npm ci; `make lint` and `make sdk` do it)")
    return found


@pytest.fixture
def issuer(database: str, shared_database: psycopg.Connection, redis_url: str) -> Iterator[str]:
    """Serve the product under the address that it knows for its own."""
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config = product_config(address_of(shared_database), redis_url, base_url=url, web_url=url)
    with serving(create_app(config, product_parts(wakeups=RecordedWakeups())), listener) as served:
        yield served


@pytest.fixture
def person(issuer: str, database: str) -> Iterator[httpx.Client]:
    """Return a person who is signed in, and a member of one organisation."""
    token = new_session_token()
    with committing(database) as session:
        ada, acme = factories.user(session), factories.organization(session)
        factories.membership(session, acme, ada)
        factories.login(session, ada, acme, token_hash=token_hash(token))
    with client_of(issuer, headers={"Authorization": f"Bearer {token}"}, timeout=30) as client:
        yield client


def test_openid_client_signs_in_an_approved_device(node: str, issuer: str, person: httpx.Client) -> None:
    program = [node, str(PROGRAM), issuer, "/v1/me"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout
        assert running.stderr
        try:
            word, code = (running.stdout.readline() or running.stderr.read()).split()
            assert word == "code"
            assert running.stdout.readline().strip() == "authorization_pending"
            approved = person.post("/api/auth/device/approve", json={"userCode": code, "decision": "approve"})
            assert approved.status_code == 200, approved.text
            shown, errors = running.communicate(timeout=PATIENCE)
        finally:
            running.kill()
    session, answered = shown.splitlines()[-2:] or pytest.fail(errors)
    status, body = answered.removeprefix("answered ").split(maxsplit=1)
    me = json.loads(body)
    assert (status, me["name"], me["organization"]["name"]) == ("200", "Ada", "Acme")
    with client_of(issuer) as device:
        bearer = {"Authorization": f"Bearer {session.removeprefix('session ')}"}
        minted = device.get("/api/auth/token", headers=bearer).json()["token"]
        assert device.get("/v1/me", headers={"Authorization": f"Bearer {minted}"}).json() == me
