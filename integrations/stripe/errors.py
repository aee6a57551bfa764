"""Errors of Stripe, by what can be done about them."""


class StripeError(Exception):
    """Stripe refused a call, and would again: a mistake of ours."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class StripeUnavailableError(StripeError):
    """Stripe did not respond, failed, limits us, or does not accept the key: the same call may succeed later."""


class StripeMissingError(StripeError):
    """Stripe does not have the object that a call names."""
