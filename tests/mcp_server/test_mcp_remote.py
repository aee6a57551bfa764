"""mcp-remote, through which clients that only start programs use the server: with a key as header."""

import os
import subprocess
from pathlib import Path
from threading import Timer

import pytest

from tests.mcp_server.conftest import TIMEOUT_SECONDS, Product, node_command

pytestmark = pytest.mark.check


def test_mcp_remote_lists_the_tools_with_a_key(product: Product, tmp_path: Path) -> None:
    options = ("--transport", "http-only", "--header", "Authorization:${KEY}")
    held = {"KEY": f"Bearer {product.key}", "BROWSER": "/bin/true", "MCP_REMOTE_CONFIG_DIR": str(tmp_path)}
    process = subprocess.Popen(
        [*node_command("mcp-remote/dist/client.js", least=20), f"{product.url}/mcp", *options],
        stdin=subprocess.PIPE,  # at whose end it would stop
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **held},
    )
    limit = Timer(TIMEOUT_SECONDS, process.kill)
    limit.start()
    output = ""
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            output += line
            if '"name": "svc_watch_branch"' in line:  # the last one
                break
        process.kill()
    limit.cancel()
    assert '"name": "svc_watch_branch"' in output, output
