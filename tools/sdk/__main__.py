"""`python -m tools.sdk` writes all clients below `sdk/`. They are generated again each time, and not committed."""

import sys

from schemas.contract import CONTRACT_PATH
from tools.sdk import (
    GenerationError,
    generate_go_client,
    generate_pydantic_client,
    generate_python_client,
    generate_typescript_client,
    generate_typescript_types,
)

ROOT = CONTRACT_PATH.parent / "sdk"
CLIENTS = {
    ROOT / "python" / "change_freeze_client": generate_python_client,
    ROOT / "typescript" / "schema.d.ts": generate_typescript_types,
    ROOT / "typescript-fetch": generate_typescript_client,
    ROOT / "python-pydantic": generate_pydantic_client,
    ROOT / "go": generate_go_client,
}


def main() -> int:
    """Generate all clients; return 1 and print the output of a generator that fails or warns."""
    try:
        for path, generate in CLIENTS.items():
            generate(path)
            print(f"wrote {path.relative_to(ROOT.parent)}")
    except GenerationError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
