"""The Python client that is generated from the contract understands every answer that the contract shows."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rules.contract_names import snake_case
from schemas.contract import load_contract
from tools.contract.document import Document, Operation
from tools.sdk import generate_python_client
from tools.sdk.generators import unexpected_warnings

DOCUMENT = Document(load_contract().document)
ANSWERS = [
    pytest.param(
        content["schema"]["$ref"].rpartition("/")[2], DOCUMENT.resolved(example)["value"], id=f"{operation.id}-{name}"
    )
    for operation in DOCUMENT.operations()
    for response in operation.successes.values()
    for content in response.get("content", {}).values()
    if "$ref" in content.get("schema", {})
    for name, example in content.get("examples", {}).items()
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Generate the client, which fails on any warning, and yield the name to import it by."""
    folder: Path = tmp_path_factory.mktemp("sdk")
    generate_python_client(folder / "generated_client")
    sys.path.insert(0, str(folder))
    yield "generated_client"
    sys.path.remove(str(folder))


def module_of(operation: Operation) -> str:
    tag = operation.raw["tags"][0].lower().replace(" ", "_").replace("-", "_")
    return f"api.{tag}.{operation.id}"


@pytest.mark.check
@pytest.mark.slow(15)
@pytest.mark.parametrize("operation", list(DOCUMENT.operations()), ids=lambda operation: operation.id)
def test_each_operation_can_be_called_from_the_client(operation: Operation, client: str) -> None:
    assert callable(importlib.import_module(f"{client}.{module_of(operation)}").sync_detailed)


@pytest.mark.check
@pytest.mark.parametrize(("model", "value"), ANSWERS)
def test_each_response_is_parsed_by_the_client(model: str, value: dict[str, Any], client: str) -> None:
    parsed = getattr(importlib.import_module(f"{client}.models"), model).from_dict(value)
    assert parsed.to_dict().keys() == value.keys()
    schema = load_contract().document["components"]["schemas"].get(model, {})
    if "properties" in schema or not schema.get(
        "additionalProperties"
    ):  # not what Slack defines, whose names are its own
        assert {snake_case(name) for name in value} <= {name.removesuffix("_") for name in dir(parsed)}


@pytest.mark.check
def test_repository_name_in_a_path_is_escaped(client: str) -> None:
    module = importlib.import_module(f"{client}.api.repositories.get_repository")
    assert module._get_kwargs(repo_id="acme/web")["url"] == "/v1/repos/acme%2Fweb"


@pytest.mark.parametrize(
    ("output", "unexpected"),
    [
        ("Generating client", []),
        ("npm warn Unknown user config", []),
        ("[main] WARN  o.o.codegen.utils.ModelUtils - Failed to get the schema name: null", []),
        ("[main] WARN  o.o.c.l.X - Error cannot be used as a model name. Renamed to ModelError", [0]),
        ("[main] ERROR o.o.codegen.DefaultGenerator - Could not process model", [0]),
        ("Warning(s) encountered while generating. …\n\nWARNING parsing GET /v1/me within organizations.", [2]),
    ],
)
def test_unknown_warning_of_a_generator_is_reported(output: str, unexpected: list[int]) -> None:
    lines = output.splitlines()
    assert unexpected_warnings(output) == [lines[index] for index in unexpected]
