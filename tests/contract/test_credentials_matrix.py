"""Every operation with every kind of credential: exactly the code that the contract's policy says.

The matrix makes itself: operations, scopes and least roles are read from the contract, kinds of credential from
`tests/harness/credentials.py`; what is expected follows from a model of a few lines below, and not from the code that
decides. An operation whose security the model does not know fails.

Each request has an unknown query parameter, which is validated after authorisation: an authorised caller gets that
error and nothing changes, so one set of rows serves the whole matrix. The compatibility API ignores it, and finds no
branch; a calendar's address ignores it, and finds no feed. Reads are then also sent properly.

Where the credential alone is the reason of a refusal (it is expired, say), operations of equal security take turns with
such credentials. One of them gets them all, over HTTP; the thousands of other requests are made in the process.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest
from sqlalchemy import create_engine, func, update
from sqlalchemy.orm import Session

from app.edge.connexion_adapter import Application
from app.main import create_app
from models.stripe import StripeCatalogue
from schemas.contract import Operation, load_contract, resolve
from tests.factories import ROLES
from tests.harness.contract_assertions import assert_conforms
from tests.harness.credentials import Credential, everybody
from tests.harness.in_process import in_process
from tests.harness.product import product_config, product_parts
from tests.harness.random_seed import exploring
from tests.harness.servers import client_of, serving
from tests.harness.wakeups import RecordedWakeups

CONTRACT = load_contract()
SCOPES = tuple(CONTRACT.document["components"]["securitySchemes"]["ApiKey"]["x-scopes"])
OPERATIONS = list(CONTRACT.operations.values())
SIGNED = {"GithubSignature", "SlackSignature", "StripeSignature"}
"""Schemes of those who sign what they send, and show no credential of ours."""
KINDS_OF_SECURITY: list[set[str]] = [
    set(),
    {"GithubSignature"},
    {"SlackSignature"},
    {"StripeSignature"},
    {"ApiKey", "AccessToken"},
    {"Session"},
    {"ApiKey", "Session"},
    {"SessionToken", "SessionCookie"},
]
DECISIONS = {None, "insufficient_scope", "insufficient_permission", "impersonation_read_only"}
"""What an operation says to a credential for a reason of its own."""
TURN = 6 if exploring() else 18
"""How many operations take turns with the credentials that they do not decide about."""

each = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.id)


def schemes(operation: Operation) -> set[str]:
    """Return the security schemes of which an operation takes any one; fails for schemes that are not known here."""
    assert all(len(alternative) == 1 for alternative in operation.security), f"{operation.id}: {operation.security}"
    found = {scheme for alternative in operation.security for scheme in alternative}
    assert found in KINDS_OF_SECURITY, f"{operation.id}: the matrix does not cover {sorted(found)}"
    return found


def expected(operation: Operation, given: Credential) -> str | None:
    """Return the code that refuses a credential, None for one that is let in: the policy in the order of its steps."""
    takes = schemes(operation) - SIGNED
    if not takes:
        return None
    by_sign_in = "SessionToken" in takes
    return (
        _unreadable(operation, given, by_sign_in=by_sign_in)
        or _worthless(given, {"session_token"} if by_sign_in else _forms_of_sessions(takes))
        or _without_organization(operation, given)
        or (_not_for_keys(operation, given, takes) if given.form == "key" else _not_for(operation, given, takes))
    )


def _unreadable(operation: Operation, given: Credential, *, by_sign_in: bool) -> str | None:
    if given.form in {"nothing", "unreadable"} or (given.in_cookie and not by_sign_in):
        return "missing_credentials"
    forged = given.in_cookie and operation.effect == "write" and not given.from_here
    return "origin_not_allowed" if forged else None


def _forms_of_sessions(takes: set[str]) -> set[str]:
    """Return the forms in which a session is recognised; where only keys may call, to say that it may not."""
    return {"jwt"} if "Session" in takes else {"jwt", "session_token"}


def _worthless(given: Credential, forms: set[str]) -> str | None:
    return given.fault if given.form in {"key", *forms} else "invalid_token"


def _without_organization(operation: Operation, given: Credential) -> str | None:
    if not operation.organization_required:
        return None
    codes = {
        "deleted": "organization_deleted",
        "none": "organization_not_provisioned",
        "not_selected": "no_organization_selected",
    }
    return codes.get(given.organization)


def _not_for_keys(operation: Operation, given: Credential, takes: set[str]) -> str | None:
    if "ApiKey" not in takes:
        return "credential_type_not_allowed"
    return None if given.scopes & set(operation.any_scope) else "insufficient_scope"


def _not_for(operation: Operation, given: Credential, takes: set[str]) -> str | None:
    if takes == {"ApiKey", "AccessToken"}:
        return "credential_type_not_allowed"
    least = operation.least_role if operation.organization_required else None
    if least is not None and not given.support and ROLES.index(given.role or "") < ROLES.index(least):
        return "insufficient_permission"
    return "impersonation_read_only" if given.support and operation.effect == "write" else None


@dataclass(frozen=True, slots=True)
class Service:
    """The product with everybody in it."""

    http: httpx.Client
    credentials: list[Credential]

    def ask(self, operation: Operation, given: Credential, **request: Any) -> httpx.Response:
        """Call an operation with a credential."""
        headers = {**given.headers, **request.pop("headers", {})}
        return self.http.request(operation.method, address(operation), headers=headers, **request)


@pytest.fixture(scope="module")
def service(module_database: str, redis_url: str) -> Iterator[Service]:
    engine = create_engine(module_database)
    with Session(engine, expire_on_commit=False) as session:
        credentials = everybody(session, SCOPES)
        session.execute(update(StripeCatalogue).values(synced_at=func.now()))
        session.commit()
    engine.dispose()
    with in_process(product(module_database, redis_url)) as http:
        yield Service(http, credentials)


def product(database_url: str, redis_url: str) -> Application:
    return create_app(product_config(database_url, redis_url), product_parts(wakeups=RecordedWakeups()))


def address(operation: Operation) -> str:
    """Fill in the path with ids that do not exist."""
    return re.sub(r"\{(\w+)\}", "nobodys", operation.path)


def example(operation: Operation) -> dict[str, Any]:
    """Return the query and the body that the contract gives as examples; of the query only what is required."""
    raw = CONTRACT.document["paths"][operation.path][operation.method.lower()]
    parameters = [resolve(CONTRACT.document, one) for one in raw.get("parameters", ())]
    request: dict[str, Any] = {
        "params": {one["name"]: one["example"] for one in parameters if one["in"] == "query" and one.get("required")}
    }
    if "application/json" in operation.body:
        content = resolve(CONTRACT.document, raw["requestBody"])["content"]["application/json"]
        request["json"] = resolve(CONTRACT.document, next(iter(content["examples"].values())))["value"]
    return request


def turns() -> dict[str, int]:
    """Return the place of each operation among those of equal security."""
    places: dict[str, int] = {}
    counts = defaultdict[frozenset[str], int](int)
    for operation in OPERATIONS:
        security = frozenset(schemes(operation))
        places[operation.id] = counts[security]
        counts[security] += 1
    return places


TURNS = turns()


def credentials_for(operation: Operation, credentials: list[Credential]) -> list[Credential]:
    """Return none, unknown ones, those that an operation decides about, and those of the others whose turn it is."""
    decides = DECISIONS if schemes(operation) - SIGNED else set()
    return [
        given
        for number, given in enumerate(credentials)
        if number % TURN == TURNS[operation.id] % TURN
        or given.form in {"nothing", "unknown"}
        or expected(operation, given) in decides
    ]


def code(response: httpx.Response) -> tuple[int, str | None]:
    if response.status_code < 400:
        return response.status_code, None
    body = response.json()
    return response.status_code, body["code"] if isinstance(body["error"], str) else body["error"]["code"]


def let_in(operation: Operation) -> tuple[int, str | None]:
    """Return the answer to a permitted credential: it is refused for what it sends, or for what does not exist."""
    if operation.ignores_unknown_query:
        return 404, "calendar_feed_not_found"
    if not operation.classic:
        return 400, "invalid_parameter"
    if "compat_feature_removed" in operation.error_codes:
        return 400, "compat_feature_removed"
    return (400, "missing_parameter") if operation.body_required else (404, "repository_not_found")


def by_policy(operation: Operation, given: Credential) -> tuple[int, str | None]:
    """Return the answer to a credential: status and error code."""
    refused = expected(operation, given)
    return (CONTRACT.errors[refused].status, refused) if refused else let_in(operation)


@each
def test_each_credential_gets_the_error_code_of_the_policy(service: Service, operation: Operation) -> None:
    answers, wanted, met = {}, {}, set()
    for given in credentials_for(operation, service.credentials):
        response = service.ask(operation, given, params={"unknown": "1"})
        answers[given.name] = answer = code(response)
        wanted[given.name] = by_policy(operation, given)
        if answer not in met:
            met.add(answer)
            assert_conforms(operation.id, response)
    assert answers == wanted


@pytest.mark.parametrize(
    "operation", [one for one in OPERATIONS if one.effect == "read" and schemes(one) - SIGNED], ids=lambda one: one.id
)
def test_read_answers_each_kind_of_permitted_credential_alike(service: Service, operation: Operation) -> None:
    answers: dict[tuple[int, str | None], list[str]] = {}
    permitted = (given for given in service.credentials if expected(operation, given) is None)
    for given in {(one.form, one.role, one.support): one for one in permitted}.values():
        response = service.ask(operation, given, **example(operation))
        answers.setdefault(code(response), []).append(given.name)
    assert len(answers) == 1, answers
    [(status, refusal)] = answers
    # There is no Slack here, which only the list of its channels needs.
    unreachable = operation.id == "list_slack_channels" and refusal == "slack_unavailable"
    assert status < 300 or unreachable or (refusal or "").endswith(("not_found", "_parameter", "_removed")), answers


def test_each_credential_gets_its_error_code_over_http(service: Service, module_database: str, redis_url: str) -> None:
    kinds = {tuple(sorted(schemes(one))): one for one in sorted(OPERATIONS, key=lambda one: one.effect == "write")}
    with serving(product(module_database, redis_url)) as base_url, client_of(base_url) as http:
        over_http = replace(service, http=http)
        for operation in kinds.values():
            for given in service.credentials:
                response = over_http.ask(operation, given, params={"unknown": "1"})
                assert code(response) == by_policy(operation, given), (operation.id, given.name)


def test_public_operation_accepts_every_credential(service: Service) -> None:
    for operation in OPERATIONS:
        if not schemes(operation):
            assert {expected(operation, given) for given in service.credentials} == {None}


class TestCredentialsMatrix:
    def test_credentials_matrix_has_a_cell_for_each_error_code(self, service: Service) -> None:
        met = {expected(one, given) for one in OPERATIONS for given in service.credentials}
        assert met == {
            None,
            "missing_credentials",
            "invalid_token",
            "token_expired",
            "insufficient_permission",
            "insufficient_scope",
            "credential_type_not_allowed",
            "organization_not_provisioned",
            "no_organization_selected",
            "organization_deleted",
            "impersonation_read_only",
            "origin_not_allowed",
        }

    def test_credentials_matrix_permits_some_credential_for_every_operation(self, service: Service) -> None:
        for operation in OPERATIONS:
            permitted = [given.name for given in service.credentials if expected(operation, given) is None]
            assert permitted, operation.id
            assert bool(schemes(operation) - SIGNED) == (len(permitted) < len(service.credentials)), operation.id

    @pytest.mark.parametrize("security", [({"Basic": []},), ({},), ({"ApiKey": []}, {"Basic": []})], ids=str)
    def test_credentials_matrix_fails_for_an_unknown_security_scheme(self, security: Any) -> None:
        with pytest.raises(AssertionError):
            schemes(replace(OPERATIONS[0], security=security))
