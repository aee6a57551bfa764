"""Loaded by Schemathesis (see schemathesis.toml): prepares each request, and checks what OpenAPI alone cannot say.

A request gets the fixtures that it needs and, if it is a webhook, its signature. The environment of `tools.fuzz` names
the credential and the sandbox.
"""

import gc
import itertools
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import requests.auth
import schemathesis
from hypothesis import strategies as st
from schemathesis import Case, CheckContext, HookContext, Response
from schemathesis.auths import GLOBAL_AUTH_STORAGE
from schemathesis.core.failures import AcceptedNegativeData, Failure
from schemathesis.core.media_types import YAML_MEDIA_TYPES
from schemathesis.openapi.checks import MissingHeaderNotRejected
from sqlalchemy import text

from integrations.github.signatures import sign
from integrations.slack import signatures as slack_signatures
from integrations.stripe import signatures
from rules.freezes.branch_names import branch_name_error
from schemas.contract import Operation, load_contract
from schemas.formats import explain
from tools.fake_slack.settings import SIGNING_SECRET
from tools.fuzz.audited import QUERY, AuditedAction, audit_error
from tools.fuzz.credentials import Credential, is_guarded
from tools.fuzz.fixtures.call_fixtures import open_call_fixtures
from tools.fuzz.fixtures.organization import OrganizationFixture
from tools.fuzz.fixtures.per_call import WITH_CREDENTIAL, WITHOUT_CREDENTIAL
from tools.fuzz.thinning import Thinning
from tools.sandbox.clients import Client

WEBHOOK_SECRET = os.environ["FUZZ_WEBHOOK_SECRET"]
STRIPE_WEBHOOK_SECRET = os.environ["FUZZ_STRIPE_WEBHOOK_SECRET"]
CREDENTIAL = Credential.from_json(os.environ["FUZZ_CREDENTIAL"])
TALLY = Path(os.environ["FUZZ_TALLY"])
CONTRACT = load_contract()
EXAMPLE_KEY = CONTRACT.document["components"]["parameters"]["IdempotencyKey"]["example"]
RUN, NUMBERS = os.getpid(), itertools.count()
THINNING = Thinning(int(os.environ["FUZZ_THINNED"])) if "FUZZ_THINNED" in os.environ else None
SANDBOX = json.loads(os.environ["FUZZ_SANDBOX"])
ORGANIZATION = OrganizationFixture(Client(SANDBOX["baseUrl"], SANDBOX["keys"]["all"]), SANDBOX["repositories"])
CALL_FIXTURES = open_call_fixtures(SANDBOX["databaseUrl"], SANDBOX["id"], SANDBOX["baseUrl"])
ACCESS_DENIED = {
    "missing_credentials",
    "invalid_token",
    "token_expired",
    "credential_type_not_allowed",
    "insufficient_scope",
    "insufficient_permission",
    "origin_not_allowed",
}
ERROR_TYPE_IN_BODIES = "validation_failed"
"""The type of an error whose code has another status where a body, and no path, names what is wrong (`alsoStatus`)."""
ROUTING_ERRORS = {"method_not_allowed", "not_found"}
FORM_ERRORS = {
    "malformed_json",
    "missing_parameter",
    "invalid_parameter",
    "unsupported_content_type",
    "payload_too_large",
    "validation_failed",
}
SEMANTIC_PATHS = re.compile(
    r"/(endsAt|expiresAt|state|code|scheduleId|content|country|subdivision|years|pullRequest|repo|pinToHead)$|"
    r"/(plan|currency|url|token)$|/events/\d+$|"
    r"/scope/|/repositories/\d+$|"
    r"/appliesTo/(scope/|scheduleIds)|/allow(/any/\d+)?$|/allow/.*/((accounts|teams|\w+Matching)/\d+|fromTeam)$|"
    r"(ref|repo|branch|branchId|organization|action|to|occurrencesTo|startedBefore|inForce(From|To)|(first|last)Day|timezone|query|q)$|"
    r"one_off_unfreeze_at$"
)
"""Paths of values that can be wrong though they are valid by their schema.

Used secrets, ends in the past, unknown objects, properties that exclude or need each other, plans that are not sold in
every currency, addresses that may not be called, events, of which there may be more than the schema names, and rules
of exceptions that let everything in.
"""
SCOPES_OF_REQUESTS = {"decide_authorization", "device_approve"}
"""Operations whose `scopes` must be among those that a client or a device has requested."""


gc.set_threshold(10_000, 20, 20)  # with the defaults, collections take a fifteenth of the run


schemathesis.openapi.format(
    "branch-name", st.text(min_size=1, max_size=60).filter(lambda name: branch_name_error(name) is None)
)
schemathesis.openapi.format(
    "reason",
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=80).map(lambda text: f"Release 8 {text}!"),
)


class Signature(requests.auth.AuthBase):
    """Signs the body as it is sent."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the headers of GitHub, Stripe and Slack; each service reads its own."""
        body = request.body or b""
        raw = body.encode() if isinstance(body, str) else bytes(body)
        request.headers["X-Hub-Signature-256"] = sign(WEBHOOK_SECRET, raw)
        request.headers["Stripe-Signature"] = signatures.sign(STRIPE_WEBHOOK_SECRET, raw, int(time.time()))
        stamp = str(int(time.time()))
        request.headers["X-Slack-Request-Timestamp"] = stamp
        request.headers["X-Slack-Signature"] = slack_signatures.sign(SIGNING_SECRET, raw, stamp)
        return request


class BearerToken(requests.auth.AuthBase):
    """Sends a bearer token in place of the run's."""

    def __init__(self, token: str) -> None:
        self.token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Replace the header, unless the case leaves it out or changes it."""
        if request.headers.get("Authorization") == f"Bearer {CREDENTIAL.token}":
            request.headers["Authorization"] = f"Bearer {self.token}"
        return request


@schemathesis.deserializer(*YAML_MEDIA_TYPES)  # the first that matches is used, whichever the response names
def yaml_as_text(ctx: Any, response: Response) -> str:
    """Return the contract's text, which its schema describes."""
    return response.text


GLOBAL_AUTH_STORAGE.set_from_requests(Signature()).apply_to(
    path=["/webhooks/github", "/webhooks/slack", "/webhooks/stripe"]
)


def operation_of(case: Case[Any]) -> Operation:
    """Return the operation of the contract that a case is for."""
    found: Operation = CONTRACT.operations[case.operation.definition.raw["operationId"]]
    return found


def error_of(response: Response) -> dict[str, Any] | None:
    """Return the error of a response; None of a success, and of OAuth's own errors, which their schema describes."""
    if response.status_code < 400:
        return None
    body: dict[str, Any] = response.json()
    if isinstance(body["error"], str):
        return _from_classic(body) if "code" in body else None
    error: dict[str, Any] = body["error"]
    return error


def _from_classic(body: dict[str, Any]) -> dict[str, Any]:
    """Return an error of the compatibility API as one of `/v1`; its message begins with the path of the value."""
    row = CONTRACT.errors.get(body["code"])
    detail = {"path": body["error"].partition(" ")[0], "message": body["error"]}
    known = {"type": row.type if row else None, "code": body["code"], "message": body["error"], "details": [detail]}
    return {**known, "requestId": body["request_id"]}


def header(response: Response, name: str) -> str | None:
    """Return a header, or None; fail if it is there more than once."""
    values = response.headers.get(name, [])
    assert len(values) < 2, f"{name} is there {len(values)} times"
    return values[0] if values else None


@schemathesis.hook
def filter_case(context: HookContext, case: Case[Any]) -> bool:
    """Return False for most cases of the coverage phase in a quick run."""
    return THINNING is None or THINNING.keeps(operation_of(case).id, case)


@schemathesis.hook
def after_call(context: HookContext, case: Case[Any], response: Response) -> None:
    """Append operation and status to the tally."""
    with TALLY.open("a") as tally:
        tally.write(f"{operation_of(case).id} {response.status_code}\n")


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:
    """Replace what can be used only once: the example of an Idempotency-Key, the freeze that is to be ended, and more.

    Otherwise the service would refuse all calls but the first, or end the credential of this run.
    """
    other_token = _apply_fixture(case, operation_of(case))
    if other_token is not None:
        kwargs["auth"] = BearerToken(other_token)
    if operation_of(case).classic and case.query:
        case.query.pop("access_token", None)  # beside the run's own token another one is refused
    if case.headers and case.headers.get("Idempotency-Key") == EXAMPLE_KEY:
        case.headers["Idempotency-Key"] = f"{RUN}-{next(NUMBERS)}"
    is_negative = case.meta is not None and case.meta.generation.mode.is_negative
    if case.headers and "If-Match" in case.headers and not is_negative:
        case.headers["If-Match"] = "*"  # no tag of an earlier response is known, nor is the header's pattern obeyed
    changes_a_freeze = operation_of(case).id in {"extend_freeze", "lift_freeze", "retry_freeze"}
    if changes_a_freeze and case.path_parameters.get("freezeId") == SANDBOX["freeze"] and CREDENTIAL.is_valid:
        case.path_parameters["freezeId"] = ORGANIZATION.freeze()


def _apply_fixture(case: Case[Any], operation: Operation) -> str | None:
    """Insert the fixtures that are needed; return another person's token if the call would end ours."""
    if operation.path.startswith("/api/auth/"):
        CALL_FIXTURES.forget_attempts()
    insert_fixture = WITHOUT_CREDENTIAL.get(operation.id)
    if CREDENTIAL.token and CREDENTIAL.may_call(operation):
        insert_fixture = insert_fixture or WITH_CREDENTIAL.get(operation.id)
    return insert_fixture(CALL_FIXTURES, case, CREDENTIAL.token or "") if insert_fixture is not None else None


@schemathesis.hook
def filter_failure(context: HookContext, failure: Failure, case: Case[Any], response: Response) -> bool:
    """Return False for what only Schemathesis takes for a failure.

    The service refuses an Idempotency-Key that came with another body before it validates the body. And if Schemathesis
    leaves out the only credential of an operation, `requests` sends ours nonetheless.
    """
    reused = response.status_code == 409 and (error_of(response) or {}).get("code") == "idempotency_key_reuse"
    if isinstance(failure, MissingHeaderNotRejected):
        return failure.header_name not in response.request.headers
    if operation_of(case).classic and isinstance(failure, AcceptedNegativeData):
        return False  # it reads texts as the types that the contract declares, and cuts those that are too long
    without_body = case.body is None and not operation_of(case).body_required  # null counts as no body
    return not ((reused or without_body) and isinstance(failure, AcceptedNegativeData))


@schemathesis.check
def every_response_has_a_request_id(ctx: CheckContext, response: Response, case: Case[Any]) -> None:
    """Require X-Request-Id in every response, and the same id in an error."""
    error = error_of(response)
    request_id = header(response, "x-request-id")
    assert request_id, "The response has no X-Request-Id"
    assert error is None or error["requestId"] == request_id, "The error names another request"


@schemathesis.check
def every_error_is_documented(ctx: CheckContext, response: Response, case: Case[Any]) -> None:
    """Require that an error's code is one of the operation's or a cross-cutting one, with the catalogue's status."""
    error = error_of(response)
    if error is None:
        return
    code = error["code"]
    row = CONTRACT.errors.get(code)
    assert row is not None, f"{code} is not in the catalogue"
    assert response.status_code in {row.status, row.also_status}, f"{code} came with {response.status_code}"
    expected = row.type if response.status_code == row.status else ERROR_TYPE_IN_BODIES
    assert error["type"] == expected, f"{code} came as {error['type']}"
    if code == "not_found":  # the case changed the path into one without an operation
        return
    announced = operation_of(case).error_codes | CONTRACT.cross_cutting
    assert code in announced, f"{code} is not among the operation's x-errors"


@schemathesis.check
def access_is_as_documented(ctx: CheckContext, response: Response, case: Case[Any]) -> None:
    """Require success exactly for the credentials that the contract's security allows."""
    operation = operation_of(case)
    sent = response.request.headers.get("Authorization")
    if not is_guarded(operation) or sent != (f"Bearer {CREDENTIAL.token}" if CREDENTIAL.token else None):
        return
    error = error_of(response)
    if CREDENTIAL.may_call(operation):
        assert error is None or error["code"] not in ACCESS_DENIED - _refusals_by_service(operation), (
            f"{CREDENTIAL.kind} was refused"
        )
    else:
        assert error is not None, f"{CREDENTIAL.kind} was let in"
        assert error["code"] in ACCESS_DENIED | ROUTING_ERRORS, f"{CREDENTIAL.kind} learnt more than that it may not"


def _refusals_by_service(operation: Operation) -> set[str]:
    """Return the codes by which the service refuses people whom the contract lets in, because of whose object it is."""
    return {"insufficient_permission"} & operation.error_codes if operation.least_role == "viewer" else set()


@schemathesis.check
def valid_requests_are_not_rejected_for_their_form(ctx: CheckContext, response: Response, case: Case[Any]) -> None:
    """Require that data which is valid by its schema is refused only for what it means."""
    error = error_of(response)
    if error is None or error["code"] not in FORM_ERRORS or not _is_valid(case):
        return
    details = error.get("details", [])
    assert details, error["message"]
    invisible = str(explain("visible", ""))  # the generator does not know this format
    form_paths = [
        detail["path"]
        for detail in details
        if detail.get("code") in {None, *FORM_ERRORS} and not detail["message"].endswith(invisible)
    ]
    decides_scopes = operation_of(case).id in SCOPES_OF_REQUESTS
    excused = [SEMANTIC_PATHS.match(path) or (decides_scopes and path == "/scopes") for path in form_paths]
    assert all(excused), f"{error['message']} {details}"


def _is_valid(case: Case[Any]) -> bool:
    """Return whether a case, and each of its parts, is meant to be valid: of one, only the headers may be."""
    if case.meta is None:
        return False
    return case.meta.generation.mode.is_positive and all(
        part.mode.is_positive for part in case.meta.components.values()
    )


@schemathesis.check
def every_change_is_audited(ctx: CheckContext, response: Response, case: Case[Any]) -> None:
    """Require the audit entries that the contract names for a success, and no others."""
    request_id = header(response, "x-request-id")
    if response.status_code >= 300 or header(response, "idempotency-replayed") or request_id is None:
        return
    rows = CALL_FIXTURES.session.execute(text(QUERY + ":request"), {"request": request_id})
    found = audit_error(operation_of(case), [AuditedAction(*row) for row in rows])
    assert found is None, found


@schemathesis.check
def authenticated_responses_have_rate_limits(ctx: CheckContext, response: Response, case: Case[Any]) -> None:
    """Require that every response to a valid credential has the headers of its limits."""
    error = error_of(response)
    is_unrouted = error is not None and error["code"] in ROUTING_ERRORS
    if CREDENTIAL.is_valid and is_guarded(operation_of(case)) and response.status_code != 401 and not is_unrouted:
        assert header(response, "ratelimit-remaining"), "RateLimit-Remaining is missing"
        assert header(response, "ratelimit-reset"), "RateLimit-Reset is missing"
