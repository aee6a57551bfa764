"""Calls of operations by the pages, inside the process: `schemas/calls.py` has how.

The credential is the session token of the page's cookie. A page runs in a thread of its own and waits there for the
loop that serves the operations.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from flask import request

from rules.errors import Detail
from schemas.calls import Answer, Application, StreamedAnswer, call_application, call_scope
from schemas.contract import Contract

CALL_TIMEOUT = 60
"""Seconds that a page waits for an operation: longer than any of them takes."""
MAX_CALLS_AT_ONCE = 4
"""Operations of one page that run at the same time: each holds one of the few database connections of the process."""
LOOP = "change_freeze.loop"
"""The key of the event loop that serves the operations, in the scope of a request for a page."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an operation."""

    operation_id: str
    path_params: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str | int] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    session_token: str = ""
    idempotency_key: str = ""
    if_match: str = ""
    """The `ETag` that the object must still have for a change."""
    cookie: str = ""
    """A `Cookie` header for operations that read one."""


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

    def with_details(self, details: Sequence[Detail]) -> "OperationError":
        """Return the same error with other details."""
        return OperationError(
            self.status,
            self.code,
            self.message,
            details=details,
            retry_after=self.retry_after,
            request_id=self.request_id,
        )


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
        answers: list[Answer] = []
        for answer in self.answer_all(calls):
            if isinstance(answer, OperationError):
                raise answer
            answers.append(answer)
        return answers

    def answer_all(self, calls: Sequence[Call]) -> list[Answer | OperationError]:
        """Return the answers of several operations, called at the same time; the error of those that refuse."""
        page: Mapping[str, Any] = request.environ["asgi.scope"]
        requests = [self._request(call, page) for call in calls]

        free = asyncio.Semaphore(MAX_CALLS_AT_ONCE)

        async def send(scope: dict[str, Any], body: bytes) -> Answer:
            async with free:
                return await call_application(self._application, scope, body)

        async def gather() -> list[Answer | BaseException]:
            return await asyncio.gather(*(send(*each) for each in requests), return_exceptions=True)

        answers: list[Answer | OperationError] = []
        for answer in self._wait(gather(), page[LOOP]):
            if isinstance(answer, BaseException):
                raise answer
            answers.append(answer if answer.status < 400 else _error_of(answer))
        return answers

    def open_stream(self, call: Call) -> StreamedAnswer:
        """Return the answer of an operation whose body is sent on while it is read; raise OperationError."""
        page: Mapping[str, Any] = request.environ["asgi.scope"]
        scope, body = self._request(call, page)
        streamed = StreamedAnswer(self._application, scope, body)
        refusal = self._wait(streamed.open(), page[LOOP])
        if refusal is not None:
            raise _error_of(refusal)
        return streamed

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
        if call.if_match:
            headers.append((b"if-match", call.if_match.encode("latin-1", "replace")))
        body = b"" if call.body is None else orjson.dumps(call.body)
        if body:
            headers.append((b"content-type", b"application/json"))
        scope = call_scope("web", page, operation, headers, path_params=call.path_params, query=call.query)
        return scope, body


def _error_of(answer: Answer) -> OperationError:
    error = answer.content["error"]
    return OperationError(
        answer.status,
        error["code"],
        error["message"],
        details=[_detail(row) for row in error.get("details", ())],
        retry_after=answer.header(b"retry-after"),
        request_id=error["requestId"],
    )


def _detail(row: Mapping[str, Any]) -> Detail:
    extra = {name: value for name, value in row.items() if name not in {"path", "message", "code"}}
    return Detail(row["path"], row["message"], row.get("code"), extra or None)
