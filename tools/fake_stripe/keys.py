"""The API key, which may do everything."""

from tools.fake_stripe.refusals import INVALID, Refusal

SECRET_KEY = "sk_test_51FakeStripeChangeFreezeService"  # noqa: S105 - opens nothing but this simulation


class Keys:
    """The key of the account."""

    def __init__(self, secret_key: str) -> None:
        self.secret_key = secret_key

    def require(self, header: str | None) -> None:
        """Raise Refusal (401) if an `Authorization` header does not have the key."""
        key = (header or "").partition(" ")[2]
        if key != self.secret_key:
            raise Refusal(401, INVALID, f"Invalid API Key provided: {key[:8]}{'*' * max(0, len(key) - 12)}{key[-4:]}")
