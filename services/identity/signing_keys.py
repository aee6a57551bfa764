"""Keys that sign access tokens, and their rotation.

A key is published one day before it signs, so that clients that cache our key set know it by then. When the next key
starts to sign, the old one is retired: it only verifies, until the last token it signed has expired, and is then
deleted. The very first key signs at once, because it replaces none.

Private keys are encrypted with `SECRET_KEY`, so a dump of the database cannot sign. A process with another
`SECRET_KEY`, and without the previous one, cannot use the existing keys and creates its own; the old ones still verify.
"""

import logging
from collections.abc import Iterable, Mapping
from datetime import timedelta
from itertools import pairwise
from typing import Any, cast

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt.algorithms import ECAlgorithm, OKPAlgorithm
from sqlalchemy import select

from models.organizations import SigningKey
from rules.access.access_tokens import AccessTokenSettings
from rules.ids import new_id
from services.core.encryption import DecryptionError, decrypt_with_any, encrypt
from services.core.named_locks import acquire_lock
from services.core.rotated_secrets import SecretKey
from services.core.unit_of_work import UnitOfWork
from services.identity.access_tokens import ALGORITHMS, Signer, new_key_pair

logger = logging.getLogger(__name__)

USE = "signing key"
"""The purpose of the encryption of private keys."""
SIGNING_PERIOD = timedelta(days=30)
"""How long a key signs."""
PUBLISH_BEFORE = timedelta(days=1)
"""How long a key is published before it signs."""
MAX_TOKEN_LIFETIME = timedelta(days=1)
"""Upper limit of `SESSION_JWT_TTL`."""
VERIFICATION_PERIOD = MAX_TOKEN_LIFETIME + timedelta(hours=1)
"""How long a retired key verifies."""
PUBLISHED_KEYS = "SELECT kid, algorithm, public_key FROM signing_keys ORDER BY created_at DESC, kid"
"""SQL: all public keys. Expired ones do not exist any more."""


def current_signer(uow: UnitOfWork) -> Signer:
    """Return the current signer; create the first key if there is none."""
    signer = _find_signer(uow)
    if signer is None:
        acquire_lock(uow, "signing_keys")  # another process may have created it meanwhile
        signer = _find_signer(uow) or _to_signer(uow, _add(uow, active_in=timedelta()))
    if signer is None:
        raise RuntimeError("cannot decrypt a key that was just created")
    return signer


def is_secret_key_known(uow: UnitOfWork) -> bool:
    """True unless there are keys, and `SECRET_KEY` decrypts none of them."""
    any_key = select(SigningKey.kid).where(SigningKey.encrypted_private_key.is_not(None)).limit(1)
    return _find_signer(uow) is not None or uow.session.scalar(any_key) is None


def rotate(uow: UnitOfWork) -> None:
    """Publish the next key if it is due, retire replaced keys, delete expired ones.

    Safe to call at any time and concurrently: what is due follows from the rows.
    """
    acquire_lock(uow, "signing_keys")
    keys = list(
        uow.session.scalars(
            select(SigningKey).where(SigningKey.active_from.is_not(None)).order_by(SigningKey.active_from)
        )
    )
    for key, successor in pairwise(keys):
        if key.retired_at is None and successor.active_from is not None and successor.active_from <= uow.now:
            key.retired_at = successor.active_from
    for key in keys:
        if key.retired_at is not None and key.retired_at + VERIFICATION_PERIOD <= uow.now:
            uow.session.delete(key)
    newest = keys[-1].active_from if keys else None
    if newest is not None and newest + SIGNING_PERIOD - PUBLISH_BEFORE <= uow.now:
        _add(uow, active_in=PUBLISH_BEFORE)
    uow.session.flush()


def verification_keys(rows: Iterable[Mapping[Any, Any]]) -> dict[str, tuple[str, Any]]:
    """Return algorithm and public key of each row of `PUBLISHED_KEYS` by its `kid`, as `verify_token` takes them."""
    return {
        row["kid"]: (row["algorithm"], load_pem_public_key(row["public_key"].encode()))
        for row in rows
        if row["algorithm"] in ALGORITHMS
    }


def public_jwk(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a key (`kid`, `algorithm`, `public_key` in PEM) as JSON Web Key (RFC 7517, 4)."""
    public = load_pem_public_key(row["public_key"].encode())
    if isinstance(public, ec.EllipticCurvePublicKey):
        jwk = ECAlgorithm.to_jwk(public, as_dict=True)
    else:
        jwk = OKPAlgorithm.to_jwk(cast(Ed25519PublicKey, public), as_dict=True)
    return {**jwk, "kid": row["kid"], "alg": row["algorithm"], "use": "sig"}


def _find_signer(uow: UnitOfWork) -> Signer | None:
    """Return the newest key that has started to sign and can be decrypted, or None."""
    started = (
        select(SigningKey)
        .where(SigningKey.active_from <= uow.now, SigningKey.encrypted_private_key.is_not(None))
        .order_by(SigningKey.active_from.desc(), SigningKey.kid)
    )
    return next((signer for key in uow.session.scalars(started) if (signer := _to_signer(uow, key)) is not None), None)


def _to_signer(uow: UnitOfWork, key: SigningKey) -> Signer | None:
    try:
        private = decrypt_with_any(
            uow.ports[SecretKey].accepted, USE, key.kid, key.encrypted_private_key or b""
        ).decode()
    except DecryptionError:
        logger.warning("signing key %s is encrypted with another SECRET_KEY; it only verifies", key.kid)
        return None
    settings = uow.ports[AccessTokenSettings]
    return Signer(key.kid, key.algorithm, private, settings.issuer, settings.audience)


def _add(uow: UnitOfWork, *, active_in: timedelta) -> SigningKey:
    private, public = new_key_pair()
    kid = new_id("kid")
    key = SigningKey(
        kid=kid,
        algorithm="ES256",
        public_key=public,
        encrypted_private_key=encrypt(uow.ports[SecretKey].current, USE, kid, private.encode()),
        created_at=uow.now,
        active_from=uow.now + active_in,
    )
    uow.session.add(key)
    uow.session.flush()
    return key
