"""The conformance tests of the protocol that concern a server with tools alone.

The others need a server that is written for them (`tools-call-*`, `input-required-result-*`, `elicitation-*`,
`json-schema-2020-12`, `tasks-*`), or what ours has none of: prompts, resources, completion, logging, sessions, streams.
"""

import re
import subprocess
from pathlib import Path

import pytest

from tests.mcp_server.conftest import TIMEOUT_SECONDS, Product, node_command

pytestmark = pytest.mark.check
CONFORMANCE = "@modelcontextprotocol/conformance/dist/index.js"
_FAILURE = re.compile(r"\[([\w-]+) *\] \S*FAILURE")
WITHOUT_DIAGNOSTIC_TOOLS = {
    "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-missing-capability-http-400",
    "sep-2575-http-server-no-independent-requests-on-stream",
    "sep-2575-server-no-log-without-loglevel",
}
"""Checks that call a tool which only a server for tests has."""
WITHOUT_PROMPTS_AND_RESOURCES = {
    "sep-2549-prompts-list-caching-hints",
    "sep-2549-resources-list-caching-hints",
    "sep-2549-resources-templates-list-caching-hints",
}
SCENARIOS: list[tuple[str, str, set[str]]] = [
    ("server-initialize", "2025-11-25", set()),
    ("ping", "2025-11-25", set()),
    ("tools-list", "2025-11-25", set()),
    ("tools-list", "2026-07-28", set()),
    ("http-header-validation", "2026-07-28", set()),
    ("dns-rebinding-protection", "2026-07-28", set()),
    ("server-stateless", "2026-07-28", WITHOUT_DIAGNOSTIC_TOOLS),
    ("caching", "2026-07-28", WITHOUT_PROMPTS_AND_RESOURCES),
]


@pytest.mark.parametrize(("scenario", "version", "failing"), SCENARIOS)
def test_conformance(product: Product, tmp_path: Path, scenario: str, version: str, failing: set[str]) -> None:
    given = ("--url", f"{product.url_with_key}/mcp", "--scenario", scenario, "--spec-version", version)
    finished = subprocess.run(
        [*node_command(CONFORMANCE, least=22), "server", *given],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
        cwd=tmp_path,
    )
    assert "Passed: " in finished.stdout, finished.stdout + finished.stderr
    assert set(_FAILURE.findall(finished.stdout)) == failing, finished.stdout
