"""The token endpoint: authorization codes and refresh tokens are exchanged for tokens, or revoked.

A code is spent by the first attempt, right or wrong; a second one ends the grant. A refresh token is replaced by its
first use. It works once more within two minutes, because clients with several processes share one. Its use after that
time ends the grant, because a copy of the token is about. These changes must be committed with the error.
"""

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from sqlalchemy import select, text

from models.oauth import OAuthClient, OAuthCode, OAuthGrant, OAuthRefreshToken
from models.organizations import User
from rules import web_addresses
from rules.access.access_tokens import AccessTokenSettings
from rules.access.client_documents import uses_refresh_tokens
from rules.access.oauth import OAuthError, is_same_resource, verifier_matches
from services.core.tokens import new_oauth_code, new_refresh_token, token_hash
from services.core.unit_of_work import UnitOfWork
from services.identity.access_tokens import InvalidTokenError
from services.identity.account_audit import actor_of
from services.identity.memberships import organizations_of
from services.identity.oauth.access_tokens import LIFETIME, issue_grant_token, verify_grant_token
from services.identity.oauth.clients import require_known_client
from services.identity.oauth.grants import Why, end_grant, lock_grant
from services.identity.signing_keys import PUBLISHED_KEYS, current_signer, verification_keys

CODE_LIFETIME = timedelta(seconds=60)
REFRESH_LIFETIME = timedelta(days=30)
REFRESH_GRACE = timedelta(seconds=120)
"""How long after its first use a refresh token may be used a second time."""
_SECOND = timedelta(seconds=1)


def resource_of(uow: UnitOfWork) -> str:
    """Return the one resource that tokens are issued for: our MCP server."""
    return uow.ports[AccessTokenSettings].audience + web_addresses.MCP


def require_resource(uow: UnitOfWork, given: str | None) -> None:
    """Raise OAuthError `invalid_target` if a resource indicator names another resource."""
    resource = resource_of(uow)
    try:
        same = given is None or is_same_resource(given, resource)
    except ValueError:
        same = False
    if not same:
        raise OAuthError("invalid_target", f"The only resource is {resource}.")


def issue_code(uow: UnitOfWork, grant: OAuthGrant, redirect_uri: str, challenge: str) -> str:
    """Return a new authorization code of a grant."""
    code = new_oauth_code()
    row = OAuthCode(
        code_hash=token_hash(code),
        organization_id=grant.organization_id,
        grant_id=grant.id,
        redirect_uri=redirect_uri,
        challenge=challenge,
        expires_at=uow.now + CODE_LIFETIME,
    )
    uow.session.add(row)
    uow.session.flush()
    return code


def exchange_code(uow: UnitOfWork, code: str, redirect_uri: str, client_id: str, verifier: str) -> dict[str, Any]:
    """Return the tokens of an authorization code. Raise OAuthError; commit all the same."""
    client = require_known_client(uow, client_id)
    query = select(OAuthCode).where(OAuthCode.code_hash == token_hash(code)).with_for_update()
    row = uow.session.scalar(query.execution_options(populate_existing=True))
    grant = lock_grant(uow, row.grant_id) if row is not None else None
    if row is None or grant is None or grant.client_id != client_id:
        raise OAuthError("invalid_grant", "The code is unknown or belongs to another client.")
    if row.used_at is not None:
        _end_because_of_copy(uow, grant, "code_reused")
        raise OAuthError("invalid_grant", "The code has been used. The connection has ended.")
    row.used_at = uow.now
    uow.session.flush()
    if uow.now >= row.expires_at:
        raise OAuthError("invalid_grant", "The code has expired.")
    if redirect_uri != row.redirect_uri:
        raise OAuthError("invalid_grant", "redirect_uri is not that of the authorization request.")
    if not verifier_matches(verifier, row.challenge):
        raise OAuthError("invalid_grant", "code_verifier does not match the code_challenge.")
    return issue_tokens(uow, grant, client, grant.scopes)


def refresh(uow: UnitOfWork, refresh_token: str, client_id: str, scope: str | None) -> dict[str, Any]:
    """Return new tokens for a refresh token, perhaps for fewer scopes. Raise OAuthError; commit all the same."""
    client = require_known_client(uow, client_id)
    found = _find_refresh_token(uow, refresh_token)
    grant = lock_grant(uow, found.grant_id) if found is not None else None
    row = _find_refresh_token(uow, refresh_token)  # it may have been used before the lock was granted
    if row is None or grant is None or grant.client_id != client_id or not grant.is_live(uow.now):
        raise OAuthError("invalid_grant", "The refresh token is unknown, has ended, or belongs to another client.")
    if row.used_at is not None and uow.now > row.used_at + REFRESH_GRACE:
        _end_because_of_copy(uow, grant, "refresh_token_reused")
        raise OAuthError("invalid_grant", "The refresh token has been used. The connection has ended.")
    if uow.now >= row.expires_at:
        raise OAuthError("invalid_grant", "The refresh token has expired.")
    scopes = scope.split() if scope is not None else grant.scopes
    if not scopes or not set(scopes) <= {*grant.scopes, "offline_access"}:
        raise OAuthError("invalid_scope", "The connection does not have all of these scopes.")
    if row.reused_at is not None:
        raise OAuthError("invalid_grant", "The refresh token has been used twice. Use the newer ones.")
    if row.used_at is None:
        row.used_at = uow.now
    else:
        row.reused_at = uow.now
    return issue_tokens(uow, grant, client, set(scopes) & set(grant.scopes))


def issue_tokens(uow: UnitOfWork, grant: OAuthGrant, client: OAuthClient, scopes: Collection[str]) -> dict[str, Any]:
    """Return new tokens of a grant whose row is locked. Raise OAuthError `invalid_grant` if it has ended."""
    if not grant.is_live(uow.now) or grant.organization_id not in organizations_of(uow, grant.user_id):
        raise OAuthError("invalid_grant", "The connection has ended.")
    lifetime = min(LIFETIME, grant.expires_at - uow.now) // _SECOND * _SECOND
    token = issue_grant_token(current_signer(uow), grant, scopes, now=uow.now, lifetime=lifetime)
    grant.last_used_at = uow.now
    tokens = {
        "access_token": token,
        "token_type": "Bearer",
        "expires_in": int(lifetime.total_seconds()),
        "scope": " ".join(sorted(scopes)),
    }
    if uses_refresh_tokens(client.document or {}):
        tokens["refresh_token"] = _issue_refresh_token(uow, grant)
    return tokens


def revoke(uow: UnitOfWork, token: str, client_id: str | None) -> None:
    """End the grant of a refresh token or an access token.

    A token that is unknown or another client's is no error (RFC 7009, 2.2); without a `client_id` any client's counts.
    """
    row = _find_refresh_token(uow, token)
    grant_id = row.grant_id if row is not None else _grant_of_access_token(uow, token)
    grant = lock_grant(uow, grant_id) if grant_id is not None else None
    if grant is None or client_id not in {None, grant.client_id}:
        return
    person = uow.session.get_one(User, grant.user_id)
    with uow.impersonate(actor=actor_of(uow, person, grant.organization_id), source="mcp"):
        end_grant(uow, grant, "by_client")


def _grant_of_access_token(uow: UnitOfWork, token: str) -> str | None:
    """Return the id of the grant that an access token of ours names, also if the token has expired; or None."""
    keys = verification_keys(uow.session.execute(text(PUBLISHED_KEYS)).mappings().all())
    try:
        issuer = uow.ports[AccessTokenSettings].issuer
        return verify_grant_token(token, keys, issuer=issuer, audience=resource_of(uow)).grant_id
    except InvalidTokenError:
        return None


def _issue_refresh_token(uow: UnitOfWork, grant: OAuthGrant) -> str:
    token = new_refresh_token()
    row = OAuthRefreshToken(
        token_hash=token_hash(token),
        organization_id=grant.organization_id,
        grant_id=grant.id,
        issued_at=uow.now,
        expires_at=min(uow.now + REFRESH_LIFETIME, grant.expires_at),
    )
    uow.session.add(row)
    uow.session.flush()
    return token


def _find_refresh_token(uow: UnitOfWork, token: str) -> OAuthRefreshToken | None:
    """Return the row of a refresh token as it is in the database now, or None."""
    query = select(OAuthRefreshToken).where(OAuthRefreshToken.token_hash == token_hash(token))
    return uow.session.scalar(query.execution_options(populate_existing=True))


def _end_because_of_copy(uow: UnitOfWork, grant: OAuthGrant, why: Why) -> None:
    """End the grant of a code or token that was used again: somebody may have a copy of it."""
    with uow.act_as_service():
        end_grant(uow, grant, why)
