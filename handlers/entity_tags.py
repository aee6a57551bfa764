"""Responses about an object that can be changed with `If-Match`."""

from typing import Any

from schemas.replies import HeadedReply
from services.core.entity_tags import entity_tag


def tagged(shown: Any, **only_now: Any) -> HeadedReply:
    """Return an object with its entity tag; `only_now` are properties that only this response has."""
    return HeadedReply({**shown, **only_now} if only_now else shown, {"ETag": entity_tag(shown)})
