"""What `docs/guide/clients.md` says of values that may grow holds for the generators."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from schemas.contract import CONTRACT_PATH

pytestmark = [pytest.mark.check, pytest.mark.slow(15)]
ROOT = CONTRACT_PATH.parent
PROGRAM = """
import type { components } from "./schema";
type State = components["schemas"]["FreezeLifecycleState"];
const known: State = "in_force", later: State = "thawing";
const listed: Extract<State, "in_force"> = "in_force";
// @ts-expect-error  the listed values are known by name
const other: Extract<State, "in_force"> = "thawing";
console.log(known, later, listed, other);
"""


def test_script_of_the_guide_types_known_values_and_takes_others(tmp_path: Path) -> None:
    node, compiler = shutil.which("node"), ROOT / "node_modules" / ".bin" / "tsc"
    if node is None or not compiler.exists():
        pytest.skip("Node.js or the npm tools are not installed (npm ci; `make lint` and `make sdk` run it)")
    guide = (ROOT / "docs" / "guide" / "clients.md").read_text()
    [script] = re.findall(r"```js\n(.*?)```", guide, re.DOTALL)
    (tmp_path / "node_modules").symlink_to(ROOT / "node_modules")
    shutil.copy(CONTRACT_PATH, tmp_path / "openapi.yaml")
    (tmp_path / "types.mjs").write_text(script)
    (tmp_path / "program.ts").write_text(PROGRAM)
    compile_command = [node, str(compiler), "--strict", "--noEmit", "--skipLibCheck", "program.ts"]
    for command in ([node, "types.mjs"], compile_command):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
