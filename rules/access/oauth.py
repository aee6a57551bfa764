"""OAuth errors, for endpoints that OAuth clients call (RFC 6749, 5.2; RFC 8628, 3.5)."""


class OAuthError(Exception):
    """An error with an OAuth code and a description for developers; `members` are added to the response."""

    def __init__(self, error: str, description: str, **members: int) -> None:
        super().__init__(description)
        self.error = error
        self.description = description
        self.members = members
