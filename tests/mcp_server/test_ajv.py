"""The schemas of the tools in the validator that most clients use, at its strictest."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mcp_server.listing import listed
from mcp_server.tools import tools_of
from schemas.contract import load_contract
from tests.mcp_server.conftest import MODULES, TIMEOUT_SECONDS, node_command

pytestmark = pytest.mark.check
COMPILE = """
const Ajv = require(process.argv[1]).default, addFormats = require("ajv-formats")
const refused = []
for (const [name, schema] of JSON.parse(require("fs").readFileSync(0, "utf8"))) {
  const ajv = new Ajv({strict: true, allowUnionTypes: true})
  addFormats(ajv)
  try { ajv.compile(schema) } catch (error) { refused.push(`${name}: ${error.message}`) }
}
console.log(JSON.stringify(refused))
"""


def refused_by_ajv(dialect: str, schemas: list[tuple[str, Any]]) -> list[str]:
    """Return what Ajv says against schemas, each with its name."""
    [node, _] = node_command("ajv/dist/ajv.js")
    finished = subprocess.run(
        [node, "-e", COMPILE, dialect],
        input=json.dumps(schemas),
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_SECONDS,
        cwd=Path(MODULES).parent,
    )
    found: list[str] = json.loads(finished.stdout)
    return found


@pytest.mark.parametrize("dialect", ["ajv", "ajv/dist/2020"])
def test_ajv_takes_the_schemas_of_all_tools(dialect: str) -> None:
    tools = tools_of(load_contract()).values()
    whole = [tool.declaration for tool in tools]
    schemas = [
        (tool["name"], tool[kind])
        for tool in [*whole, *listed(whole)]
        for kind in ("inputSchema", "outputSchema")
        if kind in tool
    ]
    assert refused_by_ajv(dialect, schemas) == []


def test_ajv_refuses_a_private_format() -> None:
    assert refused_by_ajv("ajv", [("a tool", {"type": "string", "format": "branch-glob"})]) != []
