"""A proxy that answers as a later version of the service might: with added properties and added values."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from schemas import walk
from schemas.contract import Node, load_contract
from tests.harness.response_conformance import operation_id_of
from tests.harness.servers import client_of, in_thread

ADDED_VALUE = "added_later"
CONTRACT = load_contract()


@contextmanager
def later_version(base_url: str) -> Iterator[tuple[str, Counter[str]]]:
    """Yield the address of the proxy, and how many properties and values it has added so far."""
    added: Counter[str] = Counter()
    with client_of(base_url) as upstream:
        handler = type("Handler", (_Handler,), {"upstream": upstream, "added": added})
        with in_thread(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as port:
            yield f"http://127.0.0.1:{port}", added


class _Handler(BaseHTTPRequestHandler):
    upstream: httpx.Client
    added: Counter[str]

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _OF_A_CONNECTION}
        response = self.upstream.request(self.command, self.path, headers=headers, content=body)
        content = self._grown(response) if response.content else b""
        self.send_response(response.status_code)
        for name, value in response.headers.items():
            if name not in _OF_A_CONNECTION:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = _forward  # noqa: N815 - names of the standard library

    def _grown(self, response: httpx.Response) -> bytes:
        operation = CONTRACT.operations[operation_id_of(response.request) or ""]
        raw = CONTRACT.document["paths"][operation.path][operation.method.lower()]["responses"]
        content = CONTRACT.resolve(raw[str(response.status_code)])["content"].get("application/json")
        if content is None:
            return response.content
        return json.dumps(grown(content["schema"], response.json(), self.added)).encode()

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


_OF_A_CONNECTION = {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "content-encoding"}


def grown(schema: Node, value: Any, added: Counter[str]) -> Any:
    """Return a value of a schema with a property added to each object, and each listed value replaced by a new one."""
    schema = CONTRACT.resolve(schema)
    if isinstance(value, list):
        return [grown(schema.get("items", {}), item, added) for item in value]
    if isinstance(value, dict) and schema.get("additionalProperties", True) is True:
        properties = walk.properties(CONTRACT.document, schema, value)
        added["properties"] += 1
        return {name: grown(properties.get(name, {}), child, added) for name, child in value.items()} | {
            "addedLater": {"asAnObject": [1, None]}
        }
    if isinstance(value, str) and "x-extensible-enum" in schema:
        added["values"] += 1
        return ADDED_VALUE
    return value
