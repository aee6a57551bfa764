"""Who may create an account without an invitation."""

import pytest

from rules.access.sign_up import SignUpPolicy

DOMAINS = SignUpPolicy("domain", ("acme.example", "acme.test"))


@pytest.mark.parametrize(
    ("policy", "email", "permitted"),
    [
        (SignUpPolicy(), "eve@example.com", True),
        (SignUpPolicy("invitation"), "eve@example.com", False),
        (DOMAINS, "eve@acme.example", True),
        (DOMAINS, "eve@acme.test", True),
        (DOMAINS, "eve@example.com", False),
        (DOMAINS, "eve@mail.acme.example", False),
        (DOMAINS, "eve@notacme.example", False),
        (DOMAINS, "eve@acme.example.com", False),
        (DOMAINS, "acme.example", False),
        (DOMAINS, '"eve@acme.example"@example.com', False),
        (DOMAINS, "eve@\N{FULLWIDTH LATIN SMALL LETTER A}cme.example", False),
    ],
)
def test_sign_up_is_permitted_by_the_policy(policy: SignUpPolicy, email: str, *, permitted: bool) -> None:
    assert policy.permits(email) is permitted


def test_policy_says_who_may_sign_up() -> None:
    assert SignUpPolicy().summary == ""
    assert SignUpPolicy("invitation").summary == "Accounts are for people who have been invited."
    assert "at acme.example or acme.test, and" in DOMAINS.summary
