"""Schemathesis over the whole contract, shortly, and which credentials it uses; `make fuzz` does it at length."""

import os
import re
import subprocess
import sys

import pytest

from schemas.contract import CONTRACT_PATH, load_contract
from tools.fuzz.__main__ import OF_SIGN_IN, is_tried_quickly
from tools.fuzz.credentials import Credential, credentials_of, is_guarded
from tools.sandbox.tenants import KEYS

SEED = os.environ.get("FUZZ_SEED", "20261121")
OPERATIONS = load_contract().operations
PEOPLE = ["viewer", "owner"]
ORGANIZATION = {
    "keys": dict.fromkeys(KEYS, "a key"),
    "sessions": dict.fromkeys(PEOPLE, "a JWT"),
    "sessionTokens": dict.fromkeys(PEOPLE, "a token"),
}
CREDENTIALS = {one.kind: one for one in credentials_of(ORGANIZATION)}
FUZZED = ["none", "owner", "sign-in", "all"]
FUZZED_AT_LENGTH_ONLY = ["garbage", "viewer", "freeze:read"]
"""What these may call, the others may too; whom each operation refuses is in `test_credentials_matrix.py`."""
EXCUSED = {
    "retry_freeze",
    "claim_installation",
    "claim_slack_workspace",
    "list_slack_channels",
    "generate_compat_access_token",
}
"""What a run cannot call with success.

It has no failed target, no one visits GitHub or Slack, Slack did not issue the tokens of its workspaces, and the last
one refuses.
"""


@pytest.mark.check
@pytest.mark.slow(170)
@pytest.mark.timeout(1500)
def test_fuzzed_requests_get_only_answers_of_the_contract() -> None:
    chosen = [argument for kind in FUZZED for argument in ("--credential", kind)]
    command = [sys.executable, "-m", "tools.fuzz", "--quick", "--examples", "2", "--seed", SEED, *chosen]
    done = subprocess.run(command, cwd=CONTRACT_PATH.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"Seed {SEED} (FUZZ_SEED={SEED} has this again)\n{done.stdout}\n{done.stderr}"
    never_called = set(done.stdout.partition("Never called with success: ")[2].splitlines()[0].split(", ")) - {"none"}
    assert not never_called - EXCUSED, "no call had success, see tools/fuzz/fixtures"


def test_every_kind_of_credential_is_fuzzed() -> None:
    assert sorted(FUZZED + FUZZED_AT_LENGTH_ONLY) == sorted(CREDENTIALS)


@pytest.mark.parametrize(
    ("kind", "operation", "tried"),
    [
        ("none", "get_health", True),
        ("none", "list_freezes", False),
        ("none", "get_compat_branches", True),
        ("none", "sign_in", False),
        ("all", "get_health", True),
        ("all", "list_freezes", True),
        ("all", "create_api_key", False),
        ("all", "sign_in", False),
        ("owner", "create_api_key", True),
        ("owner", "list_members", True),
        ("owner", "list_freezes", False),
        ("owner", "create_freeze", False),
        ("owner", "delete_schedule", True),
        ("owner", "get_compat_branches", False),
        ("viewer", "create_api_key", False),
        ("sign-in", "sign_in", True),
        ("sign-in", "list_freezes", False),
    ],
)
def test_quick_run_tries_an_operation_with_who_may_call_it(kind: str, operation: str, *, tried: bool) -> None:
    assert is_tried_quickly(OPERATIONS[operation], CREDENTIALS[kind], CREDENTIALS["all"]) is tried


def test_quick_run_tries_each_operation_with_every_phase_or_as_a_person() -> None:
    thorough = [CREDENTIALS[kind] for kind in ("all", "sign-in", "owner")]
    for operation in OPERATIONS.values():
        assert any(is_tried_quickly(operation, one, CREDENTIALS["all"]) for one in thorough), operation.id


@pytest.mark.parametrize("kind", FUZZED_AT_LENGTH_ONLY)
def test_what_a_kind_may_call_that_is_fuzzed_at_length_only_another_kind_may_call_too(kind: str) -> None:
    others = [CREDENTIALS[each] for each in FUZZED]
    allowed = [one for one in OPERATIONS.values() if CREDENTIALS[kind].may_call(one)]
    assert all(any(other.may_call(one) for other in others) for one in allowed)


@pytest.mark.parametrize(
    ("kind", "operation", "allowed"),
    [
        ("none", "get_health", True),
        ("none", "list_repositories", False),
        ("garbage", "list_repositories", False),
        ("garbage", "receive_github_webhook", True),
        ("viewer", "list_repositories", True),
        ("viewer", "create_freeze", False),
        ("freeze:read", "list_freezes", True),
        ("freeze:read", "list_repositories", False),
        ("freeze:read", "create_freeze", False),
        ("garbage", "sign_in", True),
        ("owner", "list_sessions", False),
        ("all", "list_sessions", False),
        ("sign-in", "list_sessions", True),
        ("sign-in", "delete_organization", True),
        ("sign-in", "list_repositories", False),
        ("viewer", "bootstrap_organization", True),
    ],
)
def test_permitted_operations_of_a_credential_follow_the_contract(kind: str, operation: str, *, allowed: bool) -> None:
    assert CREDENTIALS[kind].may_call(OPERATIONS[operation]) is allowed


def test_owner_and_key_with_all_scopes_may_call_all_but_other_credentials() -> None:
    def refused(kind: str) -> list[str]:
        return [one.id for one in OPERATIONS.values() if not CREDENTIALS[kind].may_call(one)]

    by_sign_in = [one.id for one in OPERATIONS.values() if one.accepts("SessionToken")]
    for_keys = [one.id for one in OPERATIONS.values() if one.accepts("ApiKey") and not one.accepts("Session")]
    assert sorted(refused("owner")) == sorted([*for_keys, *by_sign_in])
    assert not {*by_sign_in} & {*refused("sign-in")}
    for_people = [one.id for one in OPERATIONS.values() if one.accepts("Session") and not one.accepts("ApiKey")]
    assert sorted(refused("all")) == sorted([*for_people, *by_sign_in])


def test_session_token_may_call_all_that_a_quick_run_leaves_to_it() -> None:
    left = [one for one in OPERATIONS.values() if re.match(OF_SIGN_IN, one.path)]
    assert left
    assert all(CREDENTIALS["sign-in"].may_call(one) for one in left)
    assert not [one.id for one in left if is_guarded(one) and CREDENTIALS["all"].may_call(one)]


def test_credential_survives_serialization_for_the_environment() -> None:
    for credential in CREDENTIALS.values():
        assert Credential.from_json(credential.to_json()) == credential
