"""Responses: serialize the result of a handler, validate it, and add the headers that the contract declares."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from app.edge.errors import JSON
from app.edge.request_context import Reply, RequestContext
from schemas.contract import Operation
from schemas.dialect import Validators
from schemas.replies import HeadedReply, LastingReply, RawReply, SecretReply, StreamedReply
from schemas.serialization import Serializers
from services.core.entity_tags import tag_of

_SPECIAL = (RawReply, SecretReply, HeadedReply, LastingReply, StreamedReply)
_TAG = re.compile(rb'(?:W/)?"[^"]*"')


class NonConformingReplyError(Exception):
    """The result of a handler does not match the contract."""


class ResponseBuilder:
    """Builds the responses of one operation."""

    def __init__(self, operation: Operation, serializers: Serializers, validators: Validators | None) -> None:
        success = operation.success
        self._operation = operation
        self._status = success.status
        self._location = success.location
        has_json = success.schema is not None and success.media_type == "application/json"
        self._serialize = serializers.of(success.schema) if has_json and success.schema is not None else None
        self._check = (
            validators.compile(success.schema) if validators and has_json and success.schema is not None else None
        )

    def reply(self, result: Any) -> Reply:
        """Return the response for a handler's result. Raise NonConformingReplyError if validation is on and fails."""
        secret, extra, until = False, None, None
        if isinstance(result, _SPECIAL):
            if isinstance(result, RawReply):
                headers = _headers(result.headers)
                return Reply(result.status, headers, result.body, cacheable=_controls_caching(headers))
            if isinstance(result, StreamedReply):
                return Reply(self._status, _headers(result.headers), stream=result.stream)
            secret = isinstance(result, SecretReply)
            extra = result.headers if isinstance(result, HeadedReply) else None
            until = result.until if isinstance(result, LastingReply) else None
            result = result.value
        if self._serialize is None:
            if result is not None:
                raise NonConformingReplyError(f"{self._operation.id} returned a body, but {self._status} has none")
            return Reply(self._status)
        content = self._serialize(result)
        if self._check is not None and not self._check.is_valid(content):
            self._raise_invalid(content)
        headers = [JSON]
        if extra is not None:
            headers += _headers(extra)
        if self._location is not None:
            headers.append((b"location", self._created_at(content)))
        body = orjson.dumps(content, option=orjson.OPT_UTC_Z)
        return Reply(self._status, headers, body, secret, cacheable=_controls_caching(headers), until=until)

    def _raise_invalid(self, content: Any) -> None:
        check = self._check
        errors = (
            [f"{list(error.instance_path)}: {error.message}" for error in check.iter_errors(content)] if check else []
        )
        raise NonConformingReplyError(f"{self._operation.id}: " + "; ".join(errors))

    def _created_at(self, content: Any) -> bytes:
        """Return the address of the created object. The link's runtime expressions point into the body."""
        template, parameters = self._location or ("", {})
        for name, expression in parameters.items():
            value: Any = content
            for key in expression.removeprefix("$response.body#/").split("/"):
                value = value[int(key) if isinstance(value, list) else key]
            template = template.replace("{" + name + "}", str(value))
        return template.encode()


def _controls_caching(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(name == b"cache-control" for name, _ in headers)


def _headers(headers: Mapping[str, str | tuple[str, ...]]) -> list[tuple[bytes, bytes]]:
    return [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, values in headers.items()
        for value in ((values,) if isinstance(values, str) else values)
    ]


def add_tag(reply: Reply) -> None:
    """Add a strong `ETag` to a 200, unless the handler has, and say that it has to be asked for again."""
    if reply.status != 200:
        return
    if all(name != b"etag" for name, _ in reply.headers):
        reply.headers.append((b"etag", tag_of(reply.body).encode()))
    if not reply.cacheable:
        reply.headers += [(b"cache-control", b"private, no-cache"), (b"vary", b"Authorization")]
        reply.cacheable = True


def unless_known(reply: Reply, request: RequestContext) -> Reply:
    """Return a 304 instead of a 200 if the client already has what its `ETag` names."""
    if reply.status != 200 or request.header(b"if-none-match") is None:
        return reply
    tag = next(value for name, value in reply.headers if name == b"etag")
    if _matches(request.headers(b"if-none-match"), tag):
        kept = [(name, value) for name, value in reply.headers if name != b"content-type"]
        return Reply(304, kept, cacheable=True)
    return reply


def _matches(if_none_match: list[bytes], tag: bytes) -> bool:
    """True if a header lists the tag, by weak comparison (RFC 9110, 13.1.2)."""
    for line in if_none_match:
        if line.strip() == b"*" or any(listed.removeprefix(b"W/") == tag for listed in _TAG.findall(line)):
            return True
    return False
