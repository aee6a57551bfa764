"""Idempotency keys: the answer to the first request of a key is the answer to all."""

from dataclasses import dataclass

from tools.fake_stripe.refusals import Refusal, invalid

MAX_KEY = 255
LIFETIME = 86_400


@dataclass(frozen=True, slots=True)
class Kept:
    """The first request of a key, and its answer."""

    method: str
    path: str
    body: str
    status: int
    answer: str
    request_id: str
    created: int


class IdempotencyKeys:
    """The answers of the last 24 hours."""

    def __init__(self) -> None:
        self.kept: dict[str, Kept] = {}

    def find(self, key: str, method: str, path: str, body: str, now: int) -> Kept | None:
        """Return the answer that is kept for a key. Raise Refusal if it was used for another request."""
        if len(key) > MAX_KEY:
            raise invalid(f"Idempotency key is too long (>{MAX_KEY} characters)")
        found = self.kept.get(key)
        if found is None or found.created + LIFETIME <= now:
            return None
        if found.path != path or found.method != method:
            message = (
                "Keys for idempotent requests can only be used for the same endpoint they were first used for "
                f"('{path}' vs '{found.path}'). Try using a key other than '{key}' if you meant to execute a different "
                "request."
            )
            raise Refusal(400, "idempotency_error", message)
        if found.body != body:
            message = (
                "Keys for idempotent requests can only be used with the same parameters they were first used with. Try "
                f"using a key other than '{key}' if you meant to execute a different request."
            )
            raise Refusal(400, "idempotency_error", message)
        return found

    def keep(self, key: str, kept: Kept) -> None:
        """Keep an answer."""
        self.kept[key] = kept
