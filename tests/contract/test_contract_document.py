"""What `openapi.yaml` promises as a document, apart from any code that serves it."""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from openapi_core import OpenAPI
from openapi_schema_validator import OAS30Validator
from openapi_spec_validator import validate

from schemas.contract import CONTRACT_PATH, Contract, load_contract
from tools.contract_lint import Document, lint

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
    401: "wrong_credentials",
    403: "origin_not_allowed",
    422: "weak_password",
}
"""Codes that the specification knows not, and that people meet who sign in."""
FAMILIES = {
    400: "invalid_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "invalid_request",
    409: "conflict",
    410: "gone",
    413: "payload_too_large",
    422: "validation_failed",
    429: "rate_limited",
    500: "internal_error",
    502: "upstream_error",
    503: "unavailable",
}
SPECIFIED_OPERATIONS = {
    "POST /v1/scope/preview": ("freeze:read", "session"),
    "POST /v1/freezes": ("freeze:write", "session"),
    "GET /v1/freezes": ("freeze:read", "session"),
    "GET /v1/overview": ("freeze:read", "session"),
    "GET /v1/attention": ("freeze:read", "session"),
    "POST /v1/freezes/lift": ("freeze:write", "session"),
    "GET /v1/freezes/{freezeId}": ("freeze:read", "session"),
    "GET /v1/freezes/{freezeId}/targets": ("freeze:read", "session"),
    "POST /v1/freezes/{freezeId}/lift": ("freeze:write", "session"),
    "POST /v1/freezes/{freezeId}/extend": ("freeze:write", "session"),
    "POST /v1/freezes/{freezeId}/retry": ("freeze:write", "session"),
    "GET /v1/freeze-state": ("freeze:read", "session"),
    "GET /v1/repos": ("repo:read", "session"),
    "POST /v1/repos/sync": ("repo:write", "session"),
    "POST /v1/repos/enable": ("repo:write", "session"),
    "POST /v1/repos/disable": ("repo:write", "session"),
    "POST /v1/repos/preview-glob": ("repo:read", "session"),
    "GET /v1/repos/{repoId}": ("repo:read", "session"),
    "PATCH /v1/repos/{repoId}": ("repo:write", "session"),
    "GET /v1/repos/{repoId}/pulls": ("freeze:read", "session"),
    "GET /v1/pulls/lookup": ("freeze:read", "session"),
    "GET /v1/repos/{repoId}/branches": ("repo:read", "session"),
    "GET /v1/repos/{repoId}/remote-branches": ("repo:read", "session"),
    "POST /v1/repos/{repoId}/branches": ("repo:write", "session"),
    "GET /v1/branches": ("repo:read", "session"),
    "GET /v1/branches/{branchId}": ("repo:read", "session"),
    "PATCH /v1/branches/{branchId}": ("repo:write", "session"),
    "DELETE /v1/branches/{branchId}": ("repo:write", "session"),
    "GET /v1/enforcement": ("repo:read", "session"),
    "GET /v1/enforcement/branches/{branchId}": ("repo:read", "session"),
    "GET /v1/enforcement/branches/{branchId}/snippets": ("repo:read", "session"),
    "POST /v1/enforcement/verify": ("repo:write", "session"),
    "POST /v1/enforcement/setup": ("session",),
    "POST /v1/enforcement/seed-check": ("session",),
    "GET /v1/api-keys/scopes": ("session",),
    "GET /v1/api-keys": ("session",),
    "POST /v1/api-keys": ("session",),
    "POST /v1/api-keys/{apiKeyId}/rotate": ("session",),
    "DELETE /v1/api-keys/{apiKeyId}": ("session",),
    "GET /v1/me": ("session",),
    "GET /v1/me/organizations": ("session",),
    "POST /v1/onboarding/bootstrap": ("session",),
    "GET /v1/orgs/current": ("repo:read", "session"),
    "PATCH /v1/orgs/current": ("session",),
    "GET /v1/members": ("session",),
    "PATCH /v1/members/{userId}": ("session",),
    "DELETE /v1/members/{userId}": ("session",),
    "GET /v1/invitations": ("session",),
    "POST /v1/invitations": ("session",),
    "DELETE /v1/invitations/{invitationId}": ("session",),
    "GET /v1/invitations/pending": ("session",),
    "GET /v1/invitations/preview": ("session",),
    "POST /v1/invitations/{invitationId}/accept": ("session",),
    "GET /v1/invitations/{invitationId}/link": ("session",),
    "GET /v1/onboarding": ("session",),
    "GET /v1/github/install-url": ("session",),
    "GET /v1/installations/status": ("repo:read", "session"),
    "POST /v1/installations/claim": ("session",),
    "GET /v1/exceptions": ("exception:read", "session"),
    "POST /v1/exceptions": ("exception:write", "session"),
    "GET /v1/exceptions/{exceptionId}": ("exception:read", "session"),
    "POST /v1/exceptions/{exceptionId}/revoke": ("exception:write", "session"),
    "GET /v1/exception-requests": ("exception:read", "session"),
    "POST /v1/exception-requests": ("exception:write", "session"),
    "POST /v1/exception-requests/{exceptionId}/decide": ("exception:write", "session"),
    "GET /v1/audit": ("audit:read", "session"),
    "GET /v1/audit/actions": ("audit:read", "session"),
    "GET /v1/audit/export": ("audit:read", "session"),
    "GET /v1/schedules": ("schedule:read", "session"),
    "POST /v1/schedules": ("schedule:write", "session"),
    "POST /v1/schedules/preview": ("schedule:read", "session"),
    "GET /v1/schedules/occurrences": ("schedule:read", "session"),
    "GET /v1/schedules/calendar": ("schedule:read", "session"),
    "POST /v1/schedules/import": ("session",),
    "GET /v1/schedules/{scheduleId}": ("schedule:read", "session"),
    "PATCH /v1/schedules/{scheduleId}": ("schedule:write", "session"),
    "DELETE /v1/schedules/{scheduleId}": ("schedule:write", "session"),
    "GET /v1/schedules/{scheduleId}/preview": ("schedule:read", "session"),
    "POST /v1/schedules/{scheduleId}/skip-next": ("schedule:write", "session"),
    "POST /v1/schedules/{scheduleId}/run-now": ("session",),
    "POST /v1/freezes/{freezeId}/thaw-override": ("freeze:write", "session"),
}


@pytest.fixture(scope="module")
def contract() -> Contract:
    return CONTRACT


def test_the_contract_has_no_lint() -> None:
    assert lint(CONTRACT_PATH.read_bytes()) == []


def test_the_contract_is_openapi_3_0_3(contract: Contract) -> None:
    assert contract.document["openapi"] == "3.0.3"
    validate(contract.document)
    OpenAPI.from_dict(contract.document)


def test_every_yaml_reader_reads_the_same_document(contract: Contract) -> None:
    assert yaml.safe_load(CONTRACT_PATH.read_bytes()) == contract.document


@pytest.mark.parametrize(("status", "codes"), SPECIFIED_CODES.items(), ids=str)
def test_the_catalogue_has_the_specified_codes(status: int, codes: str, contract: Contract) -> None:
    rows = {code: row for code, row in contract.errors.items() if row.status == status}
    assert set(rows) == {*codes.split(), *ADDITIVE_CODES.get(status, "").split()}
    assert {row.type for row in rows.values()} == {FAMILIES[status]}


def test_the_catalogue_has_64_specified_codes_two_of_the_edge_and_those_of_signing_in(contract: Contract) -> None:
    additive = {code for codes in ADDITIVE_CODES.values() for code in codes.split()}
    assert len(contract.errors) == 64 + len({"method_not_allowed", "payload_too_large"} | additive)


def test_only_the_reserved_codes_are_never_answered(contract: Contract) -> None:
    reserved = {code for code, row in contract.errors.items() if not row.emitted}
    assert reserved == {"unknown_api_version", "workos_unavailable"}


def test_only_a_wrong_value_has_two_statuses(contract: Contract) -> None:
    assert {code: row.also_status for code, row in contract.errors.items() if row.also_status} == {
        "invalid_parameter": 422
    }


@pytest.mark.parametrize(("route", "credentials"), SPECIFIED_OPERATIONS.items(), ids=list(SPECIFIED_OPERATIONS))
def test_each_specified_route_takes_its_credentials(
    route: str, credentials: tuple[str, ...], contract: Contract
) -> None:
    found = {f"{operation.method} {operation.path}": operation for operation in contract.operations.values()}
    *scopes, _ = credentials
    assert found[route].security == (*({"ApiKey": [scope]} for scope in scopes), {"Session": []})


def test_no_route_of_the_interface_is_unspecified(contract: Contract) -> None:
    routes = {f"{one.method} {one.path}" for one in contract.operations.values() if one.path.startswith("/v1")}
    assert routes == set(SPECIFIED_OPERATIONS)


def test_previews_are_reads_and_every_other_post_is_a_write(contract: Contract) -> None:
    reads = {one.id for one in contract.operations.values() if one.method == "POST" and one.effect == "read"}
    assert reads == {"preview_scope", "preview_glob", "preview_schedule_draft"}


def test_the_installation_is_needed_only_where_the_code_host_must_act(contract: Contract) -> None:
    needed = {one.id for one in contract.operations.values() if one.installation_required}
    assert needed == {
        "sync_repositories",
        "enable_repositories",
        "list_remote_branches",
        "create_freeze",
        "retry_freeze",
        "verify_enforcement",
        "setup_enforcement",
        "seed_check",
    }


def test_viewers_read_and_ask_members_write_and_administrators_have_rules_written(contract: Contract) -> None:
    every = [one for one in contract.operations.values() if one.accepts("Session")]
    assert {one.least_role for one in every if one.realm == "identity"} == {"viewer"}
    sessions = [one for one in every if one.realm == "organization"]
    assert {one.least_role for one in sessions if one.effect == "read"} == {"viewer"}
    writes = [one for one in sessions if one.effect == "write"]
    assert {one.least_role for one in writes} == {"viewer", "member", "admin"}
    assert {one.id for one in writes if one.least_role == "viewer"} == {"create_exception_request", "revoke_exception"}
    assert {one.id for one in writes if one.least_role == "admin"} == {
        "setup_enforcement",
        "seed_check",
        "create_api_key",
        "rotate_api_key",
        "revoke_api_key",
        "get_install_url",
        "claim_installation",
        "update_current_organization",
        "update_member",
        "remove_member",
        "create_invitation",
        "revoke_invitation",
        "get_invitation_link",
    }


def test_keys_can_be_given_each_scope_that_there_is(contract: Contract) -> None:
    vocabulary = contract.document["components"]["securitySchemes"]["ApiKey"]["x-scopes"]
    assert contract.document["components"]["schemas"]["ApiKeyScope"]["enum"] == list(vocabulary)


def test_examples_agree_with_an_independent_reading_of_the_schemas(contract: Contract) -> None:
    document = Document.parse(contract.source)
    checked = 0
    for operation in document.operations():
        for response in operation.responses.values():
            for content in response.get("content", {}).values():
                if "schema" not in content:
                    continue
                schema = {**content["schema"], "components": contract.document["components"]}
                for example in content.get("examples", {}).values():
                    OAS30Validator(schema).validate(document.resolved(example)["value"])
                    checked += 1
    assert checked


def test_examples_of_refusals_carry_the_family_of_their_status_and_the_page_of_their_code(contract: Contract) -> None:
    for operation in Document.parse(contract.source).operations():
        for status in operation.responses.keys() - {"304", *operation.successes}:
            for error in refusals(operation.responses[status]):
                row = contract.errors[error["code"]]
                assert int(status) in {row.status, row.also_status}
                assert error["type"] == FAMILIES[int(status)]
                assert error["docsUrl"].endswith(f"/errors#{error['code']}")


def refusals(response: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    examples = response["content"]["application/json"]["examples"].values()
    errors = [example["value"]["error"] for example in examples]
    return [error for error in errors if not isinstance(error, str)]  # OAuth has refusals of its own


def test_every_code_that_an_operation_of_the_interface_answers_is_shown_or_explained(contract: Contract) -> None:
    answered = {code for one in contract.operations.values() for code in one.error_codes} | contract.cross_cutting
    assert all(len(contract.errors[code].meaning) > 20 for code in answered)
