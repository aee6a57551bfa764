"""Patterns of requests are explained in words."""

from collections.abc import Iterator
from typing import Any

import pytest

from schemas.contract import load_contract, resolve
from schemas.patterns import explain

CONTRACT = load_contract()


def patterns_in(node: Any, seen: set[str]) -> Iterator[str]:
    """Yield every pattern of a schema and of those that it refers to."""
    if isinstance(node, list):
        for each in node:
            yield from patterns_in(each, seen)
    elif isinstance(node, dict):
        reference = node.get("$ref")
        if isinstance(reference, str):
            if reference not in seen:
                seen.add(reference)
                yield from patterns_in(resolve(CONTRACT.document, node), seen)
            return
        if isinstance(node.get("pattern"), str):
            yield node["pattern"]
        for key, each in node.items():
            if key != "example":
                yield from patterns_in(each, seen)


def patterns_of_requests() -> list[str]:
    seen: set[str] = set()
    found: set[str] = set()
    for operation in CONTRACT.operations.values():
        for schema in (*operation.body.values(), *(parameter.schema for parameter in operation.parameters)):
            found.update(patterns_in(schema, seen))
    return sorted(found)


@pytest.mark.parametrize("pattern", patterns_of_requests())
def test_every_pattern_of_a_request_is_explained(pattern: str) -> None:
    words = explain(pattern, "\x00")
    assert words is not None
    assert words.startswith("must ")
    assert pattern not in words


def test_several_requests_have_patterns() -> None:
    assert len(patterns_of_requests()) > 5


def test_empty_string_is_explained_as_by_min_length() -> None:
    assert explain("^[!-~]+$", "") == "must have at least 1 character"


def test_explanation_of_an_e_mail_address_has_an_example() -> None:
    pattern = CONTRACT.document["components"]["schemas"]["EmailAddress"]["pattern"]
    assert explain(pattern, "eve") == "must be an e-mail address, such as eve@example.com"
    assert "xn--" in str(explain(pattern, "eve@löwe.example"))


def test_unknown_pattern_is_not_explained() -> None:
    assert explain("^x$", "y") is None
