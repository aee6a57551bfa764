"""What OAuth sends and expects (RFC 6749): forms in, JSON out that nobody keeps, and refusals of its own shape."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import orjson

from rules.access.oauth import OAuthError
from schemas.replies import HeadedReply, RawReply

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
_MOST_PARAMETERS = 50
_VISIBLE = re.compile(r"[ -~]*")
_UNKEPT = {"Cache-Control": "no-store", "Pragma": "no-cache"}
"""RFC 6749, 5.1 asks for both."""


def read_parameters(raw: bytes, content_type: str | None) -> dict[str, str]:
    """Return the parameters of a form, or of a JSON object of texts; those without a value are left out (3.2).

    Raises OAuthError `invalid_request` for anything else, for a parameter that is given twice, and for characters
    that no parameter of OAuth may have (appendix A).
    """
    media = (content_type or "").partition(";")[0].strip().lower()
    if media == FORM:
        pairs: Sequence[tuple[Any, Any]] = _form(raw)
    elif media == JSON:
        pairs = _json(raw)
    else:
        raise OAuthError("invalid_request", f"Send the parameters as {FORM}.")
    names = [name for name, _ in pairs]
    if len(names) != len(set(names)):
        raise OAuthError("invalid_request", "A parameter is given more than once.")
    for name, value in pairs:
        if not isinstance(value, str) or not _VISIBLE.fullmatch(name + value):
            raise OAuthError("invalid_request", "Every parameter has to be a text of visible ASCII characters.")
    return {name: value for name, value in pairs if value}


def _form(raw: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_PARAMETERS)
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
    """A JSON object with its keys as often as they are given."""


def required(parameters: Mapping[str, str], name: str) -> str:
    """Return a parameter that must be given; raises OAuthError `invalid_request`."""
    if name not in parameters:
        raise OAuthError("invalid_request", f"The parameter {name} is missing.")
    return parameters[name]


def answer(value: Any) -> HeadedReply:
    """Return an object as an answer that nobody keeps."""
    return HeadedReply(value, _UNKEPT)


def refusal(error: OAuthError) -> RawReply:
    """Return a refusal as OAuth's clients read it: 400, `error` and `error_description`."""
    content = {"error": error.error, "error_description": error.description, **error.members}
    return RawReply(400, {"Content-Type": JSON, **_UNKEPT}, orjson.dumps(content))
