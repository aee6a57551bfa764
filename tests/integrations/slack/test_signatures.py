"""Signatures of Slack's requests: the documented example, two secrets, and every odd header."""

from datetime import UTC, datetime

import pytest
from slack_sdk.signature import Clock, SignatureVerifier

from integrations.slack.signatures import sign, verify

SECRET, OTHER = "8f742231b10e8888abcd99yyyzzz85a5", "another secret of sixteen"
STAMP = "1531420618"
NOW = datetime.fromtimestamp(int(STAMP), UTC)
BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar"
    b"&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com"
    b"%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121"
    b".803a0bc887a14d10d2c447fce8b6703c"
)
SIGNATURE = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"


def test_documented_signature_is_accepted() -> None:
    assert sign(SECRET, BODY, STAMP) == SIGNATURE
    assert verify([SECRET], BODY, STAMP, SIGNATURE, NOW)


def test_signature_agrees_with_slack_sdk() -> None:
    verifier = SignatureVerifier(SECRET, Clock())
    assert verifier.generate_signature(timestamp=STAMP, body=BODY) == sign(SECRET, BODY, STAMP)


def test_either_secret_is_accepted_while_one_replaces_the_other() -> None:
    assert verify([OTHER, SECRET], BODY, STAMP, SIGNATURE, NOW)
    assert not verify([OTHER], BODY, STAMP, SIGNATURE, NOW)
    assert not verify([], BODY, STAMP, SIGNATURE, NOW)
    assert not verify([""], BODY, STAMP, sign("", BODY, STAMP), NOW)


@pytest.mark.parametrize("seconds", [-301, 301])
def test_signature_of_another_time_is_refused(seconds: int) -> None:
    stamp = str(int(STAMP) + seconds)
    assert not verify([SECRET], BODY, stamp, sign(SECRET, BODY, stamp), NOW)


@pytest.mark.parametrize("seconds", [-300, 300])
def test_signature_of_five_minutes_is_accepted(seconds: int) -> None:
    stamp = str(int(STAMP) + seconds)
    assert verify([SECRET], BODY, stamp, sign(SECRET, BODY, stamp), NOW)


@pytest.mark.parametrize(
    ("stamp", "signature"),
    [
        (None, SIGNATURE),
        (STAMP, None),
        ("", SIGNATURE),
        ("x", SIGNATURE),
        ("1e9", SIGNATURE),
        ("-1", SIGNATURE),
        ("١٥٣١٤٢٠٦١٨", SIGNATURE),
        (STAMP + "\n", SIGNATURE),
        ("9" * 400, SIGNATURE),
        (STAMP, ""),
        (STAMP, "v0="),
        (STAMP, SIGNATURE.upper()),
        (STAMP, SIGNATURE + "\n"),
        (STAMP, "v1" + SIGNATURE[2:]),
        (STAMP, "v0=ü" + SIGNATURE[4:]),
        (STAMP, SIGNATURE[:-1]),
    ],
)
def test_odd_header_is_refused(stamp: str | None, signature: str | None) -> None:
    assert not verify([SECRET], BODY, stamp, signature, NOW)


@pytest.mark.parametrize("body", [b"", BODY + b" ", b"\xff\xfe"])
def test_other_bytes_are_refused(body: bytes) -> None:
    assert not verify([SECRET], body, STAMP, SIGNATURE, NOW)


def test_bytes_that_are_no_text_can_be_signed() -> None:
    assert verify([SECRET], b"\xff", STAMP, sign(SECRET, b"\xff", STAMP), NOW)
