"""`python -m tools.sdk`: a Python client and TypeScript types, generated from the contract; a warning is a failure.

Writes `sdk/python/change_freeze_client` (openapi-python-client) and `sdk/typescript/schema.d.ts` (openapi-typescript,
which needs `npm ci` once). Both are created again each time and are not committed.
"""

import subprocess
import sys
from pathlib import Path

from schemas.contract import CONTRACT_PATH

ROOT = CONTRACT_PATH.parent
PYTHON_CLIENT = ROOT / "sdk" / "python" / "change_freeze_client"
TYPESCRIPT_TYPES = ROOT / "sdk" / "typescript" / "schema.d.ts"


class GenerationError(Exception):
    """A generator failed or warned; the message is what it printed."""


def python_client(target: Path = PYTHON_CLIENT) -> Path:
    """Generate the Python client as a package at `target`; raises GenerationError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    generator = [sys.executable, "-m", "openapi_python_client", "generate", "--path", str(CONTRACT_PATH)]
    options = ["--config", str(ROOT / "tools" / "sdk.yaml"), "--meta", "none", "--overwrite", "--fail-on-warning"]
    _run([*generator, *options, "--output-path", str(target)])
    return target


def typescript_types(target: Path = TYPESCRIPT_TYPES) -> Path:
    """Generate the TypeScript types and check them with the compiler; raises GenerationError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    generator = ["npx", "--no-install", "openapi-typescript", str(CONTRACT_PATH), "--output", str(target)]
    _run([*generator, "--default-non-nullable=false"])  # what has a default may be left out of a request
    _run(["npx", "--no-install", "tsc", "--noEmit", "--strict", str(target)])
    return target


def _run(command: list[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    warned = any("warning" in line.lower() for line in done.stdout.splitlines() if not line.startswith("npm "))
    if done.returncode or warned:
        raise GenerationError(f"{' '.join(command)}\n{done.stdout}")


def main() -> int:
    """Generate both; return 1 with the generator's words when one fails or warns."""
    try:
        for path in (python_client(), typescript_types()):
            print(f"wrote {path.relative_to(ROOT)}")
    except GenerationError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
