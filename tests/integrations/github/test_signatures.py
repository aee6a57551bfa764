"""A webhook is believed only with a signature over its very bytes."""

import pytest

from integrations.github.signatures import sign, verify

SECRET = "It's a Secret to Everybody"
BODY = b"Hello, World!"
HEADER = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"


def test_signature_of_githubs_example_verifies() -> None:
    assert verify(SECRET, BODY, HEADER)
    assert sign(SECRET, BODY) == HEADER


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "sha256=",
        HEADER.removeprefix("sha256="),
        HEADER.upper(),
        HEADER + "0",
        HEADER[:-1],
        " " + HEADER,
        HEADER + "\n",
        HEADER.replace("sha256", "sha1"),
        HEADER[:-1] + "é",
        HEADER[:-1] + "\ud800",
        HEADER + "," + HEADER,
        "sha256=" + "0" * 64,
    ],
)
def test_signature_in_a_different_header_does_not_verify(header: str | None) -> None:
    assert not verify(SECRET, BODY, header)


@pytest.mark.parametrize("body", [b"", b"Hello, World", b"Hello, World!\n", b'"Hello, World!"'])
def test_signature_of_a_different_body_does_not_verify(body: bytes) -> None:
    assert not verify(SECRET, body, HEADER)


def test_empty_secret_verifies_no_signature() -> None:
    assert not verify("", BODY, sign("", BODY))
