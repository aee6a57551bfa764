"""Reading the contract."""

import json
from contextlib import suppress

import pytest

from schemas.contract import MIN_BODY_LIMIT, ContractError, load_contract, parse_contract, parse_yaml

SMALL = b"""
openapi: 3.0.3
paths:
  /v1/things:
    get:
      {operationId: list_things, tags: [Big Things], security: [{ApiKey: [a, b]}, {Session: []}],
       responses: {200: {description: on}}}
x-error-catalogue:
  not_found: {status: 404, type: not_found, meaning: not there}
"""


def test_operation_has_the_policy_of_the_contract() -> None:
    operation = parse_contract(SMALL).operations["list_things"]
    assert (operation.module, operation.any_scope, operation.effect) == ("big_things", ("a", "b"), "read")
    assert operation.accepts("ApiKey")
    assert operation.accepts("Session")
    assert not operation.accepts("GithubSignature")
    assert operation.organization_required
    assert not operation.installation_required
    assert operation.body_limit == MIN_BODY_LIMIT


def test_duplicate_key_is_an_error_with_its_line() -> None:
    with pytest.raises(ContractError, match="b given twice, line 2"):
        parse_yaml(b"a:\n  b: 1\n  b: 2\n")


def test_yaml_values_are_read_as_json_values() -> None:
    document = parse_yaml(b"{on: off, date: 2026-11-21, yes: true, number: 1, 200: ok}")
    assert document == {"on": "off", "date": "2026-11-21", "yes": True, "number": 1, "200": "ok"}


@pytest.mark.parametrize("text", ["0", "-7", "1.5", "1.0e+20", "null", "~", "true", "'1'", "1:30", "0x1", "1_000"])
def test_plain_value_is_read_as_json_or_as_text(text: str) -> None:
    names = {"~": None, "'1'": "1"}
    with suppress(ValueError):
        names.setdefault(text, json.loads(text))
    assert parse_yaml(f"a: [{text}]".encode()) == {"a": [names.get(text, text)]}


def test_empty_value_is_null() -> None:
    assert parse_yaml(b"a:\nb: |\n  1\n") == {"a": None, "b": "1\n"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a: &b [1]\nc: *b", "no aliases, line 2"),
        (b"a:\n  ? [1]\n  : 2", "a key that is not text, line 2"),
        (b"a: 1\n---\nb: 2", "more than one document"),
        (b"", "not an object"),
    ],
)
def test_what_json_cannot_say_is_an_error(text: bytes, message: str) -> None:
    with pytest.raises(ContractError, match=message):
        parse_yaml(text)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"operationId: list_things, ", b"", "GET /v1/things: KeyError"),
        (b"tags: [Big Things], ", b"", "GET /v1/things: KeyError"),
        (b"status: 404, ", b"", "x-error-catalogue"),
        (b"x-error-catalogue", b"x-other", "x-error-catalogue"),
        (b"openapi: 3.0.3", b"[", "not YAML"),
    ],
)
def test_missing_part_is_named_in_the_error(old: bytes, new: bytes, message: str) -> None:
    with pytest.raises(ContractError, match=message):
        parse_contract(SMALL.replace(old, new))


def test_document_that_is_not_an_object_is_an_error() -> None:
    with pytest.raises(ContractError, match="not an object"):
        parse_contract(b"[]")


def test_contract_is_read_once_per_process() -> None:
    assert load_contract() is load_contract()
    assert "create_freeze" in load_contract().operations
