"""`openapi.yaml` as a document, apart from the code that serves it."""

from collections.abc import Mapping
from typing import Any

import httpx
import pytest
import yaml
from openapi_core import OpenAPI
from openapi_schema_validator import OAS30Validator
from openapi_spec_validator import validate

from rules.version import VERSION
from schemas.contract import CONTRACT_PATH, Contract, load_contract
from schemas.dialect import standard_document
from tests.harness.contract_assertions import assert_conforms
from tools.contract import Document

CONTRACT = load_contract()
SPECIFIED_CODES = {
    400: "malformed_json missing_parameter invalid_parameter invalid_cursor unsupported_content_type "
    "unknown_api_version compat_feature_removed",
    401: "missing_credentials invalid_token token_expired invalid_signature",
    403: "insufficient_permission insufficient_scope credential_type_not_allowed feature_not_available "
    "github_permission_denied organization_not_provisioned no_organization_selected impersonation_read_only",
    404: "not_found repository_not_found branch_not_found freeze_not_found schedule_not_found occurrence_not_found "
    "exception_not_found api_key_not_found member_not_found invitation_not_found installation_not_found "
    "pull_request_not_found",
    405: "method_not_allowed",
    409: "invalid_state already_frozen not_frozen billing_source_conflict slack_already_connected schedule_overlap "
    "idempotency_key_reuse exceptions_not_permitted admin_authorization_required "
    "installation_claimed_by_other_org already_exists trial_already_used",
    410: "organization_deleted installation_removed",
    413: "export_too_large too_many_targets payload_too_large",
    422: "validation_failed reason_required no_targets_in_scope invalid_timezone invalid_recurrence invalid_glob "
    "impact_preview_required",
    429: "rate_limited github_rate_limited github_secondary_rate_limit",
    500: "internal_error",
    502: "github_unavailable slack_unavailable stripe_unavailable workos_unavailable",
    503: "database_unavailable maintenance",
}
ADDITIVE_CODES = {
    400: "malformed_request",
    401: "wrong_credentials",
    403: "origin_not_allowed sign_up_restricted wrong_password",
    404: "connection_not_found calendar_feed_not_found webhook_not_found webhook_delivery_not_found "
    "slack_subscription_not_found import_not_found exception_rule_not_found",
    408: "request_timeout",
    412: "precondition_failed",
    409: "installation_suspended",
    421: "misdirected_request",
    422: "weak_password github_rejected",
    503: "too_many_connections busy",
}
"""Codes that the specification of `/v1` does not have: of signing in, connections, calendars, webhooks, rules of
exceptions and HTTP, what GitHub rejects, and a suspended App."""
FAMILIES = {
    400: "invalid_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "invalid_request",
    408: "invalid_request",
    409: "conflict",
    410: "gone",
    412: "conflict",
    413: "payload_too_large",
    421: "invalid_request",
    422: "validation_failed",
    429: "rate_limited",
    500: "internal_error",
    502: "upstream_error",
    503: "unavailable",
}

REMOVED = {"generate_compat_access_token"}
"""Operations that refuse every permitted caller."""


@pytest.fixture(scope="module")
def contract() -> Contract:
    return CONTRACT


def test_contract_has_the_version_of_the_release(contract: Contract) -> None:
    assert contract.document["info"]["version"] == VERSION


@pytest.mark.check
def test_contract_is_valid_openapi_3_0_3(contract: Contract) -> None:
    assert contract.document["openapi"] == "3.0.3"
    validate(contract.document)
    OpenAPI.from_dict(contract.document)


@pytest.mark.check
def test_every_yaml_parser_reads_the_same_document(contract: Contract) -> None:
    assert yaml.safe_load(CONTRACT_PATH.read_bytes()) == contract.document


@pytest.mark.parametrize(("status", "codes"), SPECIFIED_CODES.items(), ids=str)
def test_catalogue_has_the_specified_codes(status: int, codes: str, contract: Contract) -> None:
    rows = {code: row for code, row in contract.errors.items() if row.status == status}
    assert set(rows) == {*codes.split(), *ADDITIVE_CODES.get(status, "").split()}
    assert {row.type for row in rows.values()} == {FAMILIES[status]}


def test_catalogue_has_64_specified_codes_and_those_of_edge_and_sign_in(contract: Contract) -> None:
    additive = {code for codes in ADDITIVE_CODES.values() for code in codes.split()}
    assert len(contract.errors) == 64 + len({"method_not_allowed", "payload_too_large"} | additive)


def test_only_reserved_codes_are_never_returned(contract: Contract) -> None:
    reserved = {code for code, row in contract.errors.items() if not row.emitted}
    assert reserved == {"unknown_api_version", "workos_unavailable"}


def test_only_invalid_parameter_has_two_statuses(contract: Contract) -> None:
    assert {code: row.also_status for code, row in contract.errors.items() if row.also_status} == {
        "invalid_parameter": 422
    }


def test_every_operation_below_v1_accepts_a_signed_in_person(contract: Contract) -> None:
    routes = [one for one in contract.operations.values() if one.path.startswith("/v1/")]
    assert {one.id for one in routes if one.security and not one.accepts("Session")} == set()
    assert {one.id for one in routes if not one.security} == {"list_plans"}


def test_scope_of_a_key_matches_the_effect_of_the_operation(contract: Contract) -> None:
    with_keys = [one for one in contract.operations.values() if one.accepts("ApiKey") and one.id not in REMOVED]
    assert {
        one.id for one in with_keys if {scope.partition(":")[2] for scope in one.any_scope} != {one.effect}
    } == set()


def test_post_reads_only_in_a_preview(contract: Contract) -> None:
    reads = [one for one in contract.operations.values() if one.method == "POST" and one.effect == "read"]
    assert {one.id for one in reads if "preview" not in one.path} == REMOVED
    assert {one.id for one in contract.operations.values() if one.effect == "write" and "preview" in one.path} == set()


def test_viewer_may_call_every_read_and_personal_operation(contract: Contract) -> None:
    for_people = [one for one in contract.operations.values() if one.accepts("Session")]
    own = [one for one in for_people if one.effect == "read" or one.database_role == "identity"]
    # What other members have connected concerns administrators, as do the addresses of webhooks, which can be secrets.
    of_administrators = {"list_organization_connections"}
    of_administrators |= {one.id for one in own if one.path.startswith("/v1/webhooks")}
    # Slack lets no more see its channels than those who may subscribe them: names of private ones are among them.
    of_members = {"list_slack_channels", "list_slack_subscriptions"}
    assert {one.id for one in own if one.least_role != "viewer"} == of_administrators | of_members


def test_api_keys_can_have_every_scope_of_the_vocabulary(contract: Contract) -> None:
    vocabulary = contract.document["components"]["securitySchemes"]["ApiKey"]["x-scopes"]
    schemas = contract.document["components"]["schemas"]
    assert schemas["CreateApiKeyRequest"]["properties"]["scopes"]["items"]["enum"] == list(vocabulary)
    assert schemas["ApiKeyScope"]["x-extensible-enum"] == list(vocabulary)


def test_response_check_refuses_a_value_that_is_not_listed(contract: Contract) -> None:
    body = {"complete": False, "nextStep": "invented", "steps": []}
    headers = {"X-Request-Id": "req_06aq1m3k0v5t8c2n7d4e9f1g81", "Content-Type": "application/json"}
    headers |= {"RateLimit-Remaining": "1", "RateLimit-Reset": "1"}
    with pytest.raises(AssertionError, match="invented"):
        assert_conforms("get_onboarding", httpx.Response(200, headers=headers, json=body))
    assert_conforms("get_onboarding", httpx.Response(200, headers=headers, json={**body, "nextStep": "branches"}))


def test_examples_are_valid_for_an_independent_validator(contract: Contract) -> None:
    document = Document(contract.document)
    standard = standard_document(contract.document)
    checked = 0
    for operation in document.operations():
        for response in operation.responses.values():
            for content in response.get("content", {}).values():
                if "schema" not in content:
                    continue
                schema = {**content["schema"], "components": standard["components"]}
                for example in content.get("examples", {}).values():
                    OAS30Validator(schema).validate(document.resolved(example)["value"])
                    checked += 1
    assert checked


def test_error_examples_have_the_type_and_docs_url_of_their_code(contract: Contract) -> None:
    checked = 0
    for operation in Document(contract.document).operations():
        for status in operation.responses.keys() - {"304", *operation.successes}:
            for error in errors_in(operation.responses[status]):
                checked += 1
                row = contract.errors[error["code"]]
                assert int(status) in {row.status, row.also_status}
                assert error["type"] == FAMILIES[int(status)]
                assert error["docsUrl"].endswith(f"/errors#{error['code']}")
    assert checked


def errors_in(response: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    examples = response["content"]["application/json"]["examples"].values()
    errors = [CONTRACT.resolve(example)["value"]["error"] for example in examples]
    return [error for error in errors if not isinstance(error, str)]  # OAuth has an error format of its own


def test_every_returned_code_has_a_meaning_of_more_than_a_few_words(contract: Contract) -> None:
    answered = {code for one in contract.operations.values() for code in one.error_codes} | contract.cross_cutting
    assert all(len(contract.errors[code].meaning) > 20 for code in answered)
