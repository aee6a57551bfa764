"""Calls of operations for a person, in process (`schemas/calls.py`)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.calls import Application, call_application, call_scope
from schemas.contract import Contract
from slack_app.ports import Access


class RefusedError(Exception):
    """An operation refused: the code, the message and the fields of the error envelope."""

    def __init__(self, code: str, message: str, fields: Sequence[tuple[str, str]]) -> None:
        super().__init__(message)
        self.code, self.message = code, message
        self.fields = fields
        """JSON Pointer and message of each invalid field."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls operations as one person, within the request that Slack has sent."""

    contract: Contract
    application: Application
    outer: Mapping[str, Any]
    """The ASGI scope of that request."""
    access: Access

    async def call(self, operation_id: str, call: "Call | None" = None) -> Any:
        """Return the answer of an operation; raise RefusedError if it refuses."""
        call = call or Call()
        operation = self.contract.operations[operation_id]
        body = b"" if call.body is None else json.dumps(call.body).encode()
        headers = [(b"user-agent", b"Slack")]
        if body:
            headers.append((b"content-type", b"application/json"))
        if call.key:
            headers.append((b"idempotency-key", call.key.encode()))
        scope = call_scope("slack", self.outer, operation, headers, path_params=call.path_params, query=call.query)
        self.access.authenticate(scope)
        answer = await call_application(self.application, scope, body)
        if answer.status < 400:
            return answer.content
        error = answer.content["error"]
        fields = [(row["path"], row["message"]) for row in error.get("details", ())]
        raise RefusedError(error["code"], error["message"], fields)


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of a call."""

    path_params: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str | int] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    key: str = ""
    """The idempotency key, for a write."""
