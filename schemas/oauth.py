"""OAuth requests and responses (RFC 6749): forms in, uncached JSON out, errors in its own format."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import orjson

from rules.access.oauth import OAuthError
from schemas.replies import HeadedReply, RawReply

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
_MAX_PARAMETERS = 50
_MAX_LENGTH = 4096
"""Characters of one parameter, as in the contract."""
_VISIBLE = re.compile(r"[ -~]*")
_NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}
"""RFC 6749, 5.1 requires both."""


def read_parameters(raw: bytes, content_type: str | None) -> dict[str, str]:
    """Return the parameters of a form or of a JSON object of strings, without those that have no value (3.2).

    Raise OAuthError `invalid_request` for anything else, for a repeated parameter, and for characters that OAuth does
    not allow in parameters (appendix A).
    """
    media = (content_type or "").partition(";")[0].strip().lower()
    if media == FORM:
        pairs: Sequence[tuple[Any, Any]] = _form(raw)
    elif media == JSON:
        pairs = _json(raw)
    else:
        raise OAuthError("invalid_request", f"Send the parameters as {FORM}.")
    pairs = _without_equal_resources(pairs)
    names = [name for name, _ in pairs]
    if len(names) != len(set(names)):
        raise OAuthError("invalid_request", "A parameter is repeated.")
    for name, value in pairs:
        if not isinstance(value, str) or not _VISIBLE.fullmatch(name + value):
            raise OAuthError("invalid_request", "Every parameter must be a string of visible ASCII characters.")
        if len(value) > _MAX_LENGTH:
            raise OAuthError("invalid_request", f"A parameter is longer than {_MAX_LENGTH} characters.")
    return {name: value for name, value in pairs if value}


def _without_equal_resources(pairs: Sequence[tuple[Any, Any]]) -> Sequence[tuple[Any, Any]]:
    """Return the parameters with one `resource`, the only one that may be repeated (RFC 8707, 2).

    Raise OAuthError `invalid_target` if there are several, since we have one.
    """
    resources = [value for name, value in pairs if name == "resource"]
    if len(resources) < 2:
        return pairs
    if any(value != resources[0] for value in resources):
        raise OAuthError("invalid_target", "Tokens are for one resource.")
    return [*((name, value) for name, value in pairs if name != "resource"), ("resource", resources[0])]


def _form(raw: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_PARAMETERS)
    except ValueError:
        raise OAuthError("invalid_request", "The body is not a form in UTF-8.") from None


def _json(raw: bytes) -> list[tuple[str, Any]]:
    try:
        pairs = json.loads(raw, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        raise OAuthError("invalid_request", "The body is not JSON.") from None
    if not isinstance(pairs, _Pairs):
        raise OAuthError("invalid_request", "The body is not a JSON object.")
    return pairs


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object, repeated ones included."""


def required(parameters: Mapping[str, str], name: str) -> str:
    """Return a required parameter; raise OAuthError `invalid_request` if it is missing."""
    if name not in parameters:
        raise OAuthError("invalid_request", f"The parameter {name} is missing.")
    return parameters[name]


def respond(
    raw_body: bytes,
    headers: Mapping[str, str],
    perform: Callable[[Mapping[str, str]], object],
    *,
    extra_headers: Mapping[str, str] | None = None,
) -> HeadedReply | RawReply:
    """Return the response to a request whose parameters `perform` takes; it must not be cached.

    An error is a response as well, so that changes before it are committed.
    """
    all_headers = {**_NO_STORE, **(extra_headers or {})}
    try:
        return HeadedReply(perform(read_parameters(raw_body, headers.get("content-type"))), all_headers)
    except OAuthError as error:
        return _refusal(error, all_headers)


def _refusal(error: OAuthError, headers: Mapping[str, str]) -> RawReply:
    """Return an error in OAuth's format: 400 with `error` and `error_description`, or 401 for an unknown client."""
    content = {"error": error.error, "error_description": error.description, **error.members}
    status = 401 if error.error == "invalid_client" else 400
    return RawReply(status, {"Content-Type": JSON, **headers}, orjson.dumps(content))
