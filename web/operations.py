"""Calls of operations by the pages, inside the process: as any client calls them, and through the same application.

A call is a request of its own that never leaves the process. `scope["change_freeze.entrance"]` says that a page sends
it, which no server sets for a request from the network: the credential is then the session token of the page's cookie.
Roles, limits, idempotency and audit hold as for every client. A page runs in a thread of its own and waits there for
the loop that serves the operations.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import orjson
from flask import request

from rules.errors import Detail
from schemas.contract import Contract, Operation

ENTRANCE = "web"
CALL_TIMEOUT = 60
"""Seconds that a page waits for an operation: longer than any of them takes."""

Application = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an operation."""

    operation_id: str
    path_params: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str | int] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    session_token: str = ""
    idempotency_key: str = ""
    cookie: str = ""
    """A `Cookie` header for operations that read one."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What an operation answered: `content` is its JSON, or None."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    content: Any

    def header(self, name: bytes) -> str | None:
        """Return the header of a lower-case name, or None."""
        return next(iter(self.headers_named(name)), None)

    def headers_named(self, name: bytes) -> list[str]:
        """Return all headers of a lower-case name."""
        return [value.decode("latin-1") for key, value in self.headers if key.lower() == name]


class OperationError(Exception):
    """An operation, or a rule of the pages themselves, refused: the error envelope of the contract, with its status."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        details: Sequence[Detail] = (),
        retry_after: str | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.details = tuple(details)
        self.retry_after = retry_after
        self.request_id = request_id


class Operations:
    """Calls the operations of one application from the threads of its pages."""

    def __init__(self, contract: Contract, application: Application) -> None:
        self._contract = contract
        self._application = application

    def call(self, call: Call) -> Answer:
        """Return the answer of an operation; raise OperationError if it refuses."""
        return self.call_all([call])[0]

    def call_all(self, calls: Sequence[Call]) -> list[Answer]:
        """Return the answers of several operations, called at the same time; raise the first one's OperationError."""
        page: Mapping[str, Any] = request.environ["asgi.scope"]
        requests = [self._request(call, page) for call in calls]

        async def gather() -> list[Answer | BaseException]:
            return await asyncio.gather(*(self._send(*each) for each in requests), return_exceptions=True)

        answers: list[Answer] = []
        for answer in self._wait(gather(), page["change_freeze.loop"]):
            if isinstance(answer, BaseException):
                raise answer
            answers.append(_checked(answer))
        return answers

    @staticmethod
    def _wait(work: Any, loop: asyncio.AbstractEventLoop) -> Any:
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run_coroutine_threadsafe(work, loop).result(CALL_TIMEOUT)
        work.close()
        raise RuntimeError(f"a page has to run in a thread of its own, not in that of {running!r}")

    def _request(self, call: Call, page: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Return the ASGI scope and the body of a call, with the address and the browser of the page's visitor."""
        operation = self._contract.operations[call.operation_id]
        headers = [(b"user-agent", request.headers.get("User-Agent", "").encode("latin-1", "replace"))]
        if call.session_token:
            headers.append((b"authorization", f"Bearer {call.session_token}".encode("latin-1", "replace")))
        if call.cookie:
            headers.append((b"cookie", call.cookie.encode("latin-1", "replace")))
        if call.idempotency_key:
            headers.append((b"idempotency-key", call.idempotency_key.encode()))
        body = b"" if call.body is None else orjson.dumps(call.body)
        if body:
            headers.append((b"content-type", b"application/json"))
        path = _path(operation, call.path_params)
        return {
            "type": "http",
            "asgi": page["asgi"],
            "http_version": "1.1",
            "scheme": page.get("scheme", "http"),
            "method": operation.method,
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": urlencode(call.query).encode(),
            "headers": headers,
            "client": page.get("client"),
            "server": page.get("server"),
            "change_freeze.entrance": ENTRANCE,
            "change_freeze.request_id": page["change_freeze.request_id"],
        }, body

    async def _send(self, scope: dict[str, Any], body: bytes) -> Answer:
        messages = iter([{"type": "http.request", "body": body}])
        start: dict[str, Any] = {}
        chunks: list[bytes] = []

        async def receive() -> dict[str, Any]:
            for message in messages:
                return message
            return await asyncio.Future()  # the page stays until it has its answer

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                chunks.append(message.get("body", b""))

        await self._application(scope, receive, send)
        raw = b"".join(chunks)
        return Answer(start["status"], start["headers"], orjson.loads(raw) if raw else None)


def _path(operation: Operation, values: Mapping[str, str]) -> str:
    path = operation.path
    for name, value in values.items():
        path = path.replace("{" + name + "}", quote(value, safe=""))
    return path


def _checked(answer: Answer) -> Answer:
    if answer.status < 400:
        return answer
    error = answer.content["error"]
    raise OperationError(
        answer.status,
        error["code"],
        error["message"],
        details=[Detail(row["path"], row["message"], row.get("code")) for row in error.get("details", ())],
        retry_after=answer.header(b"retry-after"),
        request_id=error["requestId"],
    )
