"""Operations of the tag API keys."""

from typing import Any

from models.api_keys import ApiKeyState
from schemas.contract import load_contract
from schemas.replies import SecretReply
from services.core.pagination import Page
from services.core.unit_of_work import UnitOfWork
from services.identity import api_keys


def list_api_key_scopes(uow: UnitOfWork, limit: int, cursor: str | None) -> Page:
    """List the scopes of API keys, as defined in the contract."""
    vocabulary = load_contract().document["components"]["securitySchemes"]["ApiKey"]["x-scopes"]
    return api_keys.list_scopes(uow, vocabulary, cursor, limit)


def list_api_keys(uow: UnitOfWork, state: ApiKeyState | None, limit: int, cursor: str | None) -> Page:
    """List the organisation's keys, newest first."""
    return api_keys.list_keys(uow, state, cursor, limit)


def create_api_key(uow: UnitOfWork, body: dict[str, Any]) -> SecretReply:
    """Create a key and return its secret once."""
    return SecretReply(api_keys.create(uow, api_keys.NewKey(**body)))


def rotate_api_key(uow: UnitOfWork, api_key_id: str, body: dict[str, Any]) -> SecretReply:
    """Replace the secret of a key and return it once."""
    return SecretReply(api_keys.rotate(uow, api_key_id, body["grace_seconds"]))


def revoke_api_key(uow: UnitOfWork, api_key_id: str) -> None:
    """Revoke a key."""
    api_keys.revoke(uow, api_key_id)
