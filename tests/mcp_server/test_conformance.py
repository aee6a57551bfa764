"""The conformance tests of the protocol, for the server and for the authorization server.

They run whole, and every scenario is expected here: those that concern a server with tools, and the others with the
reason. Whatever a scenario tries, all messages of ours have to be valid.
"""

import json
import re
import subprocess
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.mcp_server.conftest import TIMEOUT_SECONDS, Product, node_command, reserved_port, running

pytestmark = pytest.mark.check
CONFORMANCE = "@modelcontextprotocol/conformance/dist/index.js"
_SCENARIO = re.compile(r"(?:authorization-)?server-(.+)-\d{4}-\d\d-\d\dT.+")
"""The name of a directory with results."""
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
FAILING: Mapping[str, Mapping[str, set[str]]] = {
    "2025-11-25": {"dns-rebinding-protection": set(), "ping": set(), "server-initialize": set(), "tools-list": set()},
    "2026-07-28": {
        "caching": WITHOUT_PROMPTS_AND_RESOURCES,
        "dns-rebinding-protection": set(),
        "http-header-validation": set(),
        "input-required-result-unsupported-methods": set(),
        "server-sse-multiple-streams": set(),
        "server-stateless": WITHOUT_DIAGNOSTIC_TOOLS,
        "tools-list": set(),
    },
}
"""The checks that fail, by revision and scenario, of the scenarios that concern us."""
OTHERS = {
    "completion-complete": "there is no completion of arguments",
    "elicitation-*": "calls a tool of the test server",
    "http-custom-header-server-validation": "no tool has parameters that are headers",
    "input-required-result-*": "calls a tool of the test server; tests/handlers/mcp/test_confirmation.py has ours",
    "json-schema-2020-12": "calls a tool of the test server",
    "logging-set-level": "there is no log for clients",
    "prompts-*": "there are no prompts",
    "resources-*": "there are no resources",
    "sep-2164-resource-not-found": "there are no resources",
    "server-session-lifecycle": "there are no sessions",
    "server-sse-multiple-streams": "up to 2025-11-25 it needs a session",
    "server-sse-polling": "there are no streams",
    "tasks-*": "an extension that we do not offer",
    "tools-call-*": "calls a tool of the test server",
}
"""Why the other scenarios do not concern us."""


@pytest.mark.parametrize("revision", FAILING)
def test_server_conforms_to_revision(product: Product, tmp_path: Path, revision: str) -> None:
    given = ("--url", f"{product.url_with_key}/mcp", "--requirements", revision, "-o", str(tmp_path))
    finished = subprocess.run(
        [*node_command(CONFORMANCE), "server", *given],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )
    found = results_in(tmp_path)
    concern_us = FAILING[revision]
    others = {name for name in found if any(fnmatch(name, pattern) for pattern in OTHERS)} - concern_us.keys()
    assert found.keys() == concern_us.keys() | others, finished.stdout + finished.stderr
    for scenario, results in found.items():
        assert results.get("wire-schema-valid") in {None, "SUCCESS"}, scenario
    for scenario, expected in concern_us.items():
        assert {check for check, status in found[scenario].items() if status == "FAILURE"} == expected, scenario
        assert "SUCCESS" in found[scenario].values(), scenario


def test_authorization_server_conforms(product: Product, tmp_path: Path) -> None:
    with reserved_port() as port:
        given = ("--url", product.url, "--client-id", product.client_id, "--port", str(port))
        command = [*node_command(CONFORMANCE), "authorization", *given, "--resource", f"{product.url}/mcp"]
        with running([*command, "-o", str(tmp_path)]) as process:
            assert process.stdout is not None
            address = next((line.strip() for line in process.stdout if "/oauth/authorize?" in line), "")
            assert product.approve(address, "freeze:read").status_code == 200
            output = process.stdout.read()
    found = results_in(tmp_path)
    assert found.keys() == {"authorization-server-metadata-endpoint", "authorization-code-grant"}, output
    assert {status for results in found.values() for status in results.values()} == {"SUCCESS"}, output


def results_in(directory: Path) -> Mapping[str, Mapping[str, str]]:
    """Return the result of each check that a run has noted, by scenario."""
    return {
        _SCENARIO.sub(r"\1", file.parent.name): {each["id"]: each["status"] for each in json.loads(file.read_text())}
        for file in directory.glob("*/checks.json")
    }
