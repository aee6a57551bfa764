"""Messages of JSON-RPC, as clients send them."""

from typing import Any

from pydantic_core import from_json


def read_message(body: bytes) -> dict[str, Any] | None:
    """Return the request or the notification that a body is, or None if it is neither.

    The SDK would refuse others in the words of the library that it reads them with, which is the one used here.
    """
    try:
        message = from_json(body)
    except ValueError:
        return None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
        return None
    valid_id = isinstance(message.get("id", ""), str | int) and not isinstance(message.get("id"), bool)
    return message if valid_id and isinstance(message.get("params", {}), dict) else None
