"""Schemathesis over the whole contract with keys, shortly, and which credentials it uses.

`test_fuzz_without_keys.py` uses others; `make fuzz` does it at length, with all.
"""

import re

import pytest

from schemas.contract import load_contract
from tests.contract.fuzzing import FUZZED_AT_LENGTH_ONLY, FUZZED_OTHERWISE, FUZZED_WITH_KEYS, fuzz
from tools.fuzz.__main__ import OF_SIGN_IN
from tools.fuzz.credentials import Credential, credentials_of, is_guarded
from tools.sandbox.tenants import KEYS

OPERATIONS = load_contract().operations
PEOPLE = ["viewer", "owner"]
ORGANIZATION = {
    "keys": dict.fromkeys(KEYS, "a key"),
    "sessions": dict.fromkeys(PEOPLE, "a JWT"),
    "sessionTokens": dict.fromkeys(PEOPLE, "a token"),
}
CREDENTIALS = {one.kind: one for one in credentials_of(ORGANIZATION)}


@pytest.mark.check
@pytest.mark.slow(120)
@pytest.mark.timeout(1500)
def test_fuzzed_requests_with_a_key_get_only_answers_of_the_contract(tmp_path_factory: pytest.TempPathFactory) -> None:
    fuzz(FUZZED_WITH_KEYS, tmp_path_factory)


def test_every_kind_of_credential_is_fuzzed() -> None:
    assert sorted(FUZZED_WITH_KEYS + FUZZED_OTHERWISE + FUZZED_AT_LENGTH_ONLY) == sorted(CREDENTIALS)


@pytest.mark.parametrize("kind", FUZZED_AT_LENGTH_ONLY)
def test_what_a_kind_may_call_that_is_fuzzed_at_length_only_another_kind_may_call_too(kind: str) -> None:
    others = [CREDENTIALS[each] for each in FUZZED_WITH_KEYS + FUZZED_OTHERWISE]
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
