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
from schemas.calls import Answer, Application, call_application, call_scope
from schemas.contract import Contract

CALL_TIMEOUT = 60
"""Seconds that a page waits for an operation: longer than any of them takes."""


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
            sent = [call_application(self._application, *each) for each in requests]
            return await asyncio.gather(*sent, return_exceptions=True)

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
        scope = call_scope("web", page, operation, headers, path_params=call.path_params, query=call.query)
        return scope, body


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
