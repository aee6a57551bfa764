"""Responses about an object that can be changed with `If-Match`."""

from typing import Any

from schemas.replies import HeadedReply
from services.core.entity_tags import entity_tag


def tagged(shown: Any) -> HeadedReply:
    """Return an object with its entity tag."""
    return HeadedReply(shown, {"ETag": entity_tag(shown)})
