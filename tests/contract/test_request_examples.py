"""Each example of a request succeeds, as it stands, in a sandbox that has the objects which it names, and is recorded.

Ids are made by the service, and secrets are mailed or shown once: those of the examples are replaced by real ones.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from sqlalchemy import text

from integrations.github.signatures import sign
from integrations.slack import signatures as slack_signatures
from integrations.stripe import signatures
from schemas.contract import Operation, load_contract, parse_contract
from tests.harness.response_conformance import check_conformance, checked_client
from tools.contract.document import Document
from tools.fake_slack.settings import SIGNING_SECRET
from tools.fuzz.audited import QUERY, AuditedAction, audit_error
from tools.fuzz.fixtures.call_fixtures import CallFixtures, open_call_fixtures
from tools.fuzz.fixtures.organization import OrganizationFixture
from tools.fuzz.fixtures.per_call import WITH_CREDENTIAL, WITHOUT_CREDENTIAL
from tools.sandbox.clients import Client
from tools.sandbox.temporary import temporary_sandbox

pytestmark = [pytest.mark.check, pytest.mark.slow(45)]
CONTRACT = load_contract()
DOCUMENT = Document(CONTRACT.document)
EXAMPLES = [
    (operation.id, media_type, name)
    for operation in DOCUMENT.operations()
    for media_type, content in (operation.body or {}).get("content", {}).items()
    for name in content.get("examples", {"only": None})
    if operation.id not in {"claim_installation", "claim_slack_workspace", "generate_compat_access_token"}
    # the codes of the first two are results of visits to GitHub and Slack, and the third refuses always
]
EXAMPLES.sort(key=lambda example: example[0] == "disable_repositories")  # last: the others need their repositories
WEB = {"scope": {"type": "repositories", "repositories": ["acme/web"]}}


@dataclass
class Request:
    """A request as the fixtures of single calls change it."""

    body: Any
    path_parameters: dict[str, str]
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    meta: None = None
    """What Schemathesis knows of the cases that it generates."""


class Stage:
    """A sandbox in which the objects of the examples exist."""

    def __init__(self, report: dict[str, Any], folder: Path) -> None:
        self.organization = report["organizations"]["acme"]
        self.github_url: str = report["githubUrl"]
        self.webhook_secret: str = report["webhookSecret"]
        self.stripe_webhook_secret: str = report["stripeWebhookSecret"]
        self.fixtures: CallFixtures = open_call_fixtures(
            report["databaseUrl"], self.organization["id"], report["baseUrl"]
        )
        self.service = Client(report["baseUrl"], self.organization["keys"]["all"])
        self.prepared = OrganizationFixture(self.service, self.organization["repositories"])
        self.prepared.set_up(folder / "openapi.json", self.organization["id"])
        self.document = Document(parse_contract((folder / "openapi.json").read_bytes()).document)
        self.fixtures.ensure_example_person()
        self.http = checked_client(report["baseUrl"], check_conformance)

    def request(self, operation: Operation, media_type: str, name: str) -> Request:
        """Return an example with the ids of real objects."""
        found = next(one for one in self.document.operations() if one.id == operation.id)
        assert found.body is not None
        content = found.body["content"][media_type]
        examples = content.get("examples") or {"only": {"value": content.get("example")}}
        body = self.document.resolved(examples[name])["value"]
        parameters = {one["name"]: one["example"] for _, one in found.parameters if one["in"] == "path"}
        return Request(body, parameters)

    def token(self, operation: Operation) -> str | None:
        """Return a credential that may call the operation, if it takes one: a person's, since fuzzing uses a key."""
        for scheme, token in (
            ("Session", self.organization["sessions"]["owner"]),
            ("ApiKey", self.organization["keys"]["all"]),
            ("SessionToken", self.organization["sessionTokens"]["owner"]),
        ):
            if operation.accepts(scheme):
                return str(token)
        return None

    def send(self, operation: Operation, media_type: str, request: Request, token: str | None) -> httpx.Response:
        """Send a request."""
        path = operation.path
        for name, value in request.path_parameters.items():
            path = path.replace("{" + name + "}", value.replace("/", "%2F"))
        form = media_type == "application/x-www-form-urlencoded"
        content = str(httpx.QueryParams(request.body)).encode() if form else json.dumps(request.body).encode()
        headers = {"Content-Type": media_type, **request.headers}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        if operation.accepts("GithubSignature"):
            headers |= {"X-Hub-Signature-256": sign(self.webhook_secret, content), "X-GitHub-Event": "pull_request"}
            headers["X-GitHub-Delivery"] = "72d3162e-cc78-11e3-81ab-4c9367dc0958"
        if operation.accepts("StripeSignature"):
            headers["Stripe-Signature"] = signatures.sign(self.stripe_webhook_secret, content, int(time.time()))
        if operation.accepts("SlackSignature"):
            stamp = str(int(time.time()))
            headers |= {"X-Slack-Request-Timestamp": stamp}
            headers |= {"X-Slack-Signature": slack_signatures.sign(SIGNING_SECRET, content, stamp)}
        return self.http.request(operation.method, path, params=request.query, headers=headers, content=content)


def frozen(stage: Stage, request: Request) -> None:
    """Freeze acme/web."""
    stage.service.call("POST", "/v1/freezes", {**WEB, "reason": "Frozen for an example"})


def new_freeze(stage: Stage, request: Request) -> None:
    """Name a new freeze that has an end."""
    end = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    scope = {"type": "repositories", "repositories": stage.organization["repositories"][-1:]}
    body = {"scope": scope, "reason": "Frozen for an example", "endsAt": end}
    request.path_parameters["freezeId"] = stage.service.call("POST", "/v1/freezes", body)["id"]


def unfrozen(stage: Stage, request: Request) -> None:
    """Lift every freeze, and let no window begin another."""
    stage.fixtures.forget_windows()
    body = {"scope": {"type": "organization"}, "reason": "No freeze for an example"}
    stage.service.call("POST", "/v1/freezes", {**body, "impactAcknowledged": True})
    stage.service.call("POST", "/v1/freezes/lift", {"scope": body["scope"]})


def without_windows(stage: Stage, request: Request) -> None:
    """Forget the windows of the schedules that other examples have made."""
    stage.fixtures.forget_windows()


def within_three_months(stage: Stage, request: Request) -> None:
    """Let the key of an agent expire within 90 days of today."""
    if request.body.get("agent"):
        request.body["expiresAt"] = (datetime.now(UTC) + timedelta(days=80)).isoformat()


def with_captains(stage: Stage, request: Request) -> None:
    """Have the team that rules name at GitHub."""
    team = {"organization": "acme", "slug": "release-captains", "members": ["captain"]}
    httpx.put(f"{stage.github_url}/_control/teams", json=team).raise_for_status()


PREPARED: dict[str, Callable[[Stage, Request], None]] = {
    "lift_freezes": frozen,
    "lift_freeze": new_freeze,
    "extend_freeze": new_freeze,
    "disable_repositories": unfrozen,
    "update_schedule": without_windows,
    "create_api_key": within_three_months,
    "create_exception_rule": with_captains,
}
"""What an operation needs, besides what the fixtures of single calls make."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with temporary_sandbox() as report:
        stage = Stage(report, tmp_path_factory.mktemp("examples"))
        yield stage
        stage.http.close()
        stage.fixtures.session.close()


@pytest.mark.parametrize(("operation_id", "media_type", "name"), EXAMPLES)
def test_example_of_a_request_succeeds(stage: Stage, operation_id: str, media_type: str, name: str) -> None:
    operation = CONTRACT.operations[operation_id]
    request, token = stage.request(operation, media_type, name), stage.token(operation)
    if operation_id in PREPARED:
        PREPARED[operation_id](stage, request)
    stage.fixtures.forget_attempts()
    insert_fixture = WITHOUT_CREDENTIAL.get(operation_id) or WITH_CREDENTIAL.get(operation_id)
    if insert_fixture is not None:
        token = insert_fixture(stage.fixtures, cast("Any", request), token or "") or token
    keyed = any(each.name == "Idempotency-Key" for each in operation.parameters)
    if keyed:
        request.headers["Idempotency-Key"] = f"{operation_id}:{media_type}:{name}"
    response = stage.send(operation, media_type, request, token)
    assert response.is_success, f"{request.body}: {response.text}"
    rows = stage.fixtures.session.execute(text(QUERY + ":request"), {"request": response.headers["X-Request-Id"]})
    assert audit_error(operation, [AuditedAction(*row) for row in rows]) is None
    if keyed and operation_id != "delete_organization":  # nothing is said to it any more
        again = stage.send(operation, media_type, request, token)
        assert (again.status_code, again.content) == (response.status_code, response.content)
        assert again.headers["Idempotency-Replayed"] == "true"
