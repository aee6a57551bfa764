"""The keys that session tokens are verified by: when they are read, and read again."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from app.edge.token_verification import TokenVerifier
from services.identity.access_tokens import (
    AccessTokenClaims,
    InvalidTokenError,
    Signer,
    issue_access_token,
    new_key_pair,
    verify_access_token,
)

Verify = Callable[..., list[bool]]
HERE = "https://app.example"
PAIR = new_key_pair()


class Keys:
    """Key sets as the database has them, and how often they were read."""

    def __init__(self, *kids: str) -> None:
        self.kids = list(kids)
        self.readings = 0

    async def fetch(self, *_: Any) -> list[dict[str, Any]]:
        self.readings += 1
        return [{"kid": kid, "algorithm": "ES256", "public_key": PAIR[1]} for kid in self.kids]


class Watch:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def read(self) -> float:
        return self.seconds


def token(kid: str, sid: str = "ses_1") -> str:
    signer = Signer(kid, "ES256", PAIR[0], HERE, HERE)
    lives = timedelta(minutes=15)
    return issue_access_token(signer, user="usr_1", organization=None, sid=sid, lifetime=lives, now=datetime.now(UTC))


def verifier(keys: Keys, watch: Watch) -> TokenVerifier[AccessTokenClaims]:
    return TokenVerifier(keys, partial(verify_access_token, issuer=HERE, audience=HERE), seconds=watch.read)


@pytest.fixture
def verify() -> Iterator[Verify]:
    """Verify tokens at the same moment, and return of each whether it is good."""

    async def each(by: TokenVerifier[AccessTokenClaims], tokens: tuple[str, ...]) -> list[Any]:
        return await asyncio.gather(*(by.verify(one) for one in tokens), return_exceptions=True)

    def all_at_once(by: TokenVerifier[AccessTokenClaims], *tokens: str) -> list[bool]:
        found = runner.run(each(by, tokens))
        assert all(not isinstance(one, BaseException) or isinstance(one, InvalidTokenError) for one in found), found
        return [not isinstance(one, BaseException) for one in found]

    with asyncio.Runner() as runner:
        yield all_at_once


def test_new_signing_key_is_accepted_at_once(verify: Verify) -> None:
    keys = Keys("first")
    by = verifier(keys, watch := Watch())
    assert verify(by, token("first"), token("second")) == [True, False]
    keys.kids.append("second")
    watch.seconds += 1
    assert verify(by, token("second")) == [True]


def test_unknown_signing_keys_do_not_flood_the_database(verify: Verify) -> None:
    keys = Keys("first")
    by = verifier(keys, watch := Watch())
    assert verify(by, token("first")) == [True]
    watch.seconds += 1
    readings = keys.readings
    assert not any(verify(by, *(token(f"invented-{number}") for number in range(50))))
    assert keys.readings == readings + 1


def test_removed_signing_key_is_rejected_within_a_minute(verify: Verify) -> None:
    keys = Keys("first", "leaked")
    by = verifier(keys, watch := Watch())
    known, other = token("leaked"), token("first")
    assert verify(by, known, other) == [True, True]
    keys.kids.remove("leaked")
    watch.seconds += 61
    assert verify(by, known, token("leaked", "ses_2"), other) == [False, False, True]


def test_verification_with_a_known_key_reads_no_database(verify: Verify) -> None:
    keys = Keys("first")
    by = verifier(keys, watch := Watch())
    known = token("first")
    for _ in range(3):
        assert verify(by, known) == [True]
        watch.seconds += 10
    assert keys.readings == 1


@pytest.mark.parametrize("nonsense", ["", "x", "a.b.c", "x" * 5000])
def test_malformed_access_token_is_rejected(verify: Verify, nonsense: str) -> None:
    assert verify(verifier(Keys(), Watch()), nonsense) == [False]
