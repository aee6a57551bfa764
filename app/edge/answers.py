"""From what a handler returns to the reply that is sent: dumped, checked, with the headers that its contract has."""

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from app.edge.errors import JSON
from app.edge.exchange import Reply, RequestContext
from schemas.build import Builder
from schemas.contract import Operation
from schemas.dialect import Validators
from schemas.replies import HeadedReply, RawReply, SecretReply, StreamedReply

_SPECIAL = (RawReply, SecretReply, HeadedReply, StreamedReply)
_TAG = re.compile(rb'(?:W/)?"[^"]*"')


class NonConformingReplyError(Exception):
    """A handler's answer does not match the contract."""


class ResponseBuilder:
    """Makes the replies of one operation."""

    def __init__(self, operation: Operation, builder: Builder, validators: Validators | None) -> None:
        success = operation.success
        self._operation = operation
        self._status = success.status
        self._location = success.location
        has_json = success.schema is not None and success.media_type == "application/json"
        self._dump = builder.dumper(success.schema) if has_json and success.schema is not None else None
        self._check = (
            validators.compile(success.schema) if validators and has_json and success.schema is not None else None
        )

    def reply(self, result: Any) -> Reply:
        """Return the reply of a handler's result; raises NonConformingReplyError when it is checked and wrong."""
        secret, extra = False, None
        if isinstance(result, _SPECIAL):
            if isinstance(result, RawReply):
                return _raw(result)
            if isinstance(result, StreamedReply):
                return Reply(self._status, _headers(result.headers), stream=result.stream)
            secret = isinstance(result, SecretReply)
            extra = result.headers if isinstance(result, HeadedReply) else None
            result = result.value
        if self._dump is None:
            if result is not None:
                raise NonConformingReplyError(f"{self._operation.id} answers {self._status} without a body")
            return Reply(self._status)
        content = self._dump(result)
        if self._check is not None and not self._check.is_valid(content):
            self._complain(content)
        headers = [JSON]
        if extra is not None:
            headers += _headers(extra)
        if self._location is not None:
            headers.append((b"location", self._created_at(content)))
        body = orjson.dumps(content, option=orjson.OPT_UTC_Z)
        return Reply(self._status, headers, body, secret, cacheable=_says_how_long(headers))

    def _complain(self, content: Any) -> None:
        check = self._check
        faults = (
            [f"{list(error.instance_path)}: {error.message}" for error in check.iter_errors(content)] if check else []
        )
        raise NonConformingReplyError(f"{self._operation.id}: " + "; ".join(faults))

    def _created_at(self, content: Any) -> bytes:
        """Return the created object's address: the link's runtime expressions point into the body."""
        template, parameters = self._location or ("", {})
        for name, expression in parameters.items():
            value: Any = content
            for key in expression.removeprefix("$response.body#/").split("/"):
                value = value[int(key) if isinstance(value, list) else key]
            template = template.replace("{" + name + "}", str(value))
        return template.encode()


def _raw(result: RawReply) -> Reply:
    headers = _headers(result.headers)
    return Reply(result.status, headers, result.body, cacheable=_says_how_long(headers))


def _says_how_long(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(name == b"cache-control" for name, _ in headers)


def _headers(given: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in given.items()]


def make_conditional(reply: Reply, exchange: RequestContext) -> Reply:
    """Give a reply its strong `ETag`, and turn it into a 304 for a client that has it already."""
    if reply.status != 200:
        return reply
    digest = hashlib.blake2b(reply.body, digest_size=16).digest()
    tag = b'"' + base64.urlsafe_b64encode(digest).rstrip(b"=") + b'"'
    reply.headers.append((b"etag", tag))
    if not reply.cacheable:
        reply.headers += [(b"cache-control", b"private, no-cache"), (b"vary", b"Authorization")]
        reply.cacheable = True
    if _has(exchange.headers(b"if-none-match"), tag):
        kept = [(name, value) for name, value in reply.headers if name != b"content-type"]
        return Reply(304, kept, cacheable=True)
    return reply


def _has(given: list[bytes], tag: bytes) -> bool:
    """Compare weakly, as `If-None-Match` asks (RFC 9110, 13.1.2)."""
    for line in given:
        if line.strip() == b"*" or any(one.removeprefix(b"W/") == tag for one in _TAG.findall(line)):
            return True
    return False
