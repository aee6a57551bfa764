"""Schemathesis over the whole contract with every kind of credential, shortly; `make fuzz` does it at length."""

import os
import subprocess
import sys

import pytest

from schemas.contract import CONTRACT_PATH, load_contract
from tools.fuzz.credentials import Credential, credentials_of
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


@pytest.mark.check
@pytest.mark.slow
def test_fuzzed_requests_get_only_answers_of_the_contract() -> None:
    command = [sys.executable, "-m", "tools.fuzz", "--quick", "--examples", "4", "--seed", SEED]
    done = subprocess.run(command, cwd=CONTRACT_PATH.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"Seed {SEED} (FUZZ_SEED={SEED} has this again)\n{done.stdout}\n{done.stderr}"
    silent = done.stdout.partition("Never called with success: ")[2].splitlines()[0].split(", ")
    at_github = {"claim_installation"}  # a person has to visit GitHub first
    learnt_nothing = set(silent) - {"retry_freeze"} - at_github
    assert learnt_nothing == set(), "see tools/fuzz/stage.py and supplies.py"


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
    assert refused("owner") == by_sign_in
    assert not {*by_sign_in} & {*refused("sign-in")}
    for_people = [one.id for one in OPERATIONS.values() if one.accepts("Session") and not one.accepts("ApiKey")]
    assert sorted(refused("all")) == sorted([*for_people, *by_sign_in])


def test_credential_survives_serialization_for_the_environment() -> None:
    for credential in CREDENTIALS.values():
        assert Credential.from_json(credential.to_json()) == credential
