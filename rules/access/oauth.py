"""Refusals in the words of OAuth, for the addresses that its clients call (RFC 6749, 5.2; RFC 8628, 3.5)."""


class OAuthError(Exception):
    """A refusal with one of OAuth's codes, and a sentence for developers; `members` are additive."""

    def __init__(self, error: str, description: str, **members: int) -> None:
        super().__init__(description)
        self.error = error
        self.description = description
        self.members = members
