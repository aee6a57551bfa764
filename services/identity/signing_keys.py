"""The keys that sign session JWTs, and their rotation.

A key is published a day before it signs, so that whoever keeps our key set for a while knows it by then. When the
next one begins to sign, it is retired: it signs no more, and verifies until the last token that it signed has aged
out; then it is removed. The very first one signs at once, for there is nothing that it could replace.

Private halves are sealed under `SECRET_KEY`: a dump of the database signs nothing. Whoever has another `SECRET_KEY`
cannot use the keys that there are, and makes one of its own; the old ones go on verifying.
"""

import logging
from collections.abc import Mapping
from datetime import timedelta
from itertools import pairwise
from typing import Any, cast

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt.algorithms import ECAlgorithm, OKPAlgorithm
from sqlalchemy import select, text

from models.organizations import SigningKey
from rules.ids import new_id
from services.core.encryption import DecryptionError, decrypt, encrypt
from services.core.unit_of_work import UnitOfWork
from services.identity.access_tokens import Signer, new_key_pair

logger = logging.getLogger(__name__)

USE = "signing key"
"""What the private halves are sealed for."""
SIGNS_FOR = timedelta(days=30)
PUBLISHED_BEFORE = timedelta(days=1)
LONGEST_TOKEN_LIFETIME = timedelta(days=1)
"""The most that `SESSION_JWT_TTL` may be."""
KEPT_AFTER = LONGEST_TOKEN_LIFETIME + timedelta(hours=1)
PUBLISHED = "SELECT kid, algorithm, public_key FROM signing_keys ORDER BY created_at DESC, kid"
"""Every key that there is, for those that are done are removed; the private halves stay where they are."""
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended('signing_keys', 0))")


def current_signer(uow: UnitOfWork) -> Signer:
    """Return what signs now; makes the first key where there is none."""
    signer = _signing(uow)
    if signer is None:
        uow.session.execute(_LOCK)
        uow.refresh_now()  # somebody who began a moment later may have made it meanwhile
        signer = _signing(uow) or _opened(uow, _add(uow, active_in=timedelta()))
    if signer is None:
        raise RuntimeError("a key that was sealed just now does not open")
    return signer


def rotate(uow: UnitOfWork) -> None:
    """Publish the next key when its time has come, retire the one that it replaced, remove those that are done.

    May be asked at any time, and by several at once: what is due is seen in the rows.
    """
    uow.session.execute(_LOCK)
    keys = list(
        uow.session.scalars(
            select(SigningKey).where(SigningKey.active_from.is_not(None)).order_by(SigningKey.active_from)
        )
    )
    for key, successor in pairwise(keys):
        if key.retired_at is None and successor.active_from is not None and successor.active_from <= uow.now:
            key.retired_at = successor.active_from
    for key in keys:
        if key.retired_at is not None and key.retired_at + KEPT_AFTER <= uow.now:
            uow.session.delete(key)
    newest = keys[-1].active_from if keys else None
    if newest is not None and newest + SIGNS_FOR - PUBLISHED_BEFORE <= uow.now:
        _add(uow, active_in=PUBLISHED_BEFORE)
    uow.session.flush()


def public_jwk(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a key (`kid`, `algorithm`, `public_key` in PEM) as a JSON Web Key (RFC 7517, 4)."""
    public = load_pem_public_key(row["public_key"].encode())
    if isinstance(public, ec.EllipticCurvePublicKey):
        jwk = ECAlgorithm.to_jwk(public, as_dict=True)
    else:
        jwk = OKPAlgorithm.to_jwk(cast(Ed25519PublicKey, public), as_dict=True)
    return {**jwk, "kid": row["kid"], "alg": row["algorithm"], "use": "sig"}


def _signing(uow: UnitOfWork) -> Signer | None:
    """Return the newest key that has begun to sign and can be opened; one without a beginning only verifies."""
    begun = (
        select(SigningKey)
        .where(SigningKey.active_from <= uow.now, SigningKey.sealed_private_key.is_not(None))
        .order_by(SigningKey.active_from.desc(), SigningKey.kid)
    )
    return next((signer for key in uow.session.scalars(begun) if (signer := _opened(uow, key)) is not None), None)


def _opened(uow: UnitOfWork, key: SigningKey) -> Signer | None:
    around = uow.dependencies
    try:
        private = decrypt(around.secret_key, USE, key.kid, key.sealed_private_key or b"").decode()
    except DecryptionError:
        logger.warning("signing key %s was sealed under another SECRET_KEY; it only verifies", key.kid)
        return None
    return Signer(key.kid, key.algorithm, private, around.token_issuer, around.token_audience)


def _add(uow: UnitOfWork, *, active_in: timedelta) -> SigningKey:
    private, public = new_key_pair()
    kid = new_id("kid")
    key = SigningKey(
        kid=kid,
        algorithm="ES256",
        public_key=public,
        sealed_private_key=encrypt(uow.dependencies.secret_key, USE, kid, private.encode()),
        created_at=uow.now,
        active_from=uow.now + active_in,
    )
    uow.session.add(key)
    uow.session.flush()
    return key
