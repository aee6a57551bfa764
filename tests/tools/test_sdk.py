"""Warnings of generators: those that are known do no harm."""

import pytest

from tools.sdk.generators import unexpected_warnings


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
