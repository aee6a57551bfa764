"""Operations of the tag API keys."""

from typing import Any

from schemas.contract import load_contract
from schemas.replies import SecretReply
from services.core.pagination import Page
from services.core.unit_of_work import Unit
from services.identity import api_keys


def list_api_key_scopes(unit: Unit, limit: int, cursor: str | None) -> Page:
    """List the scopes that a key can be given, as the contract knows them."""
    vocabulary = load_contract().document["components"]["securitySchemes"]["ApiKey"]["x-scopes"]
    return api_keys.list_scopes(unit, vocabulary, cursor, limit)


def list_api_keys(unit: Unit, state: api_keys.State | None, limit: int, cursor: str | None) -> Page:
    """List the organisation's keys, the newest first."""
    return api_keys.list_keys(unit, state, cursor, limit)


def create_api_key(unit: Unit, body: dict[str, Any]) -> SecretReply:
    """Make a key, and show its secret once."""
    return SecretReply(api_keys.create(unit, api_keys.NewKey(**body)))


def rotate_api_key(unit: Unit, api_key_id: str, body: dict[str, Any]) -> SecretReply:
    """Give a key another secret, and show it once."""
    return SecretReply(api_keys.rotate(unit, api_key_id, body["grace_seconds"]))


def revoke_api_key(unit: Unit, api_key_id: str) -> None:
    """End a key."""
    api_keys.revoke(unit, api_key_id)
