"""API keys: one secret key that may do everything, and restricted keys."""

import base64
import binascii

from tools.fake_stripe.refusals import INVALID, Refusal

SECRET_KEY = "sk_test_51FakeStripeChangeFreezeService"  # noqa: S105 - opens nothing but this simulation
NO_KEY = (
    "You did not provide an API key. You need to provide your API key in the Authorization header, using Bearer auth "
    "(e.g. 'Authorization: Bearer YOUR_SECRET_KEY'). See https://stripe.com/docs/api#authentication for details, or we "
    "can help at https://support.stripe.com/."
)
LEVELS = {"none": 0, "read": 1, "write": 2}


def masked(key: str) -> str:
    """Return a key as error messages show it."""
    return f"{key[:8]}{'*' * max(0, len(key) - 12)}{key[-4:]}"


class Keys:
    """The keys of the account."""

    def __init__(self, secret_key: str) -> None:
        self.secret_key = secret_key
        self.restricted: dict[str, dict[str, str]] = {}
        """Restricted key → permission → `read` or `write`; a permission that is missing is `none`."""
        self.expired: set[str] = set()

    def identify(self, header: str | None) -> str:
        """Return the key of an `Authorization` header. Raise Refusal (401) if there is none, or it is not valid."""
        scheme, _, key = (header or "").partition(" ")
        if scheme.lower() == "basic":
            try:
                key = base64.b64decode(key, validate=True).decode().partition(":")[0]
            except (binascii.Error, UnicodeDecodeError):
                key = ""
        if not key:
            raise Refusal(401, INVALID, NO_KEY)
        if key in self.expired:
            raise Refusal(401, INVALID, f"Expired API Key provided: {masked(key)}", code="api_key_expired")
        if key != self.secret_key and key not in self.restricted:
            raise Refusal(401, INVALID, f"Invalid API Key provided: {masked(key)}")
        return key

    def require(self, key: str, permission: str) -> None:
        """Raise Refusal (403) if a restricted key lacks `name_read` or `name_write`."""
        if key == self.secret_key:
            return
        name, _, level = permission.rpartition("_")
        if LEVELS[self.restricted[key].get(name, "none")] < LEVELS[level]:
            raise Refusal(
                403,
                INVALID,
                f"The provided key '{masked(key)}' does not have the required permissions for this endpoint on account "
                f"'acct_1FakeStripe'. Having the 'rak_{permission}' permission would allow this request to continue.",
            )
