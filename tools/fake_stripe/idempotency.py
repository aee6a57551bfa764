"""Idempotency keys: the answer to the first request of a key is the answer to all."""

from dataclasses import dataclass

from tools.fake_stripe.refusals import Refusal

LIFETIME = 86_400


@dataclass(frozen=True, slots=True)
class Kept:
    """The first request of a key, and its answer."""

    path: str
    form: str
    status: int
    answer: str
    request_id: str
    created: int


class IdempotencyKeys:
    """The answers of the last 24 hours."""

    def __init__(self) -> None:
        self.kept: dict[str, Kept] = {}

    def find(self, key: str, path: str, form: str, now: int) -> Kept | None:
        """Return the answer that is kept for a key. Raise Refusal if it was used for another request."""
        found = self.kept.get(key)
        if found is None or found.created + LIFETIME <= now:
            return None
        if (found.path, found.form) != (path, form):
            message = "Keys for idempotent requests can only be used for the same request they were first used with: "
            raise Refusal(400, "idempotency_error", message + key)
        return found
