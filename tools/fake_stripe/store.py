"""Everything that exists: objects as the API shows them, and beside them what it does not show."""

import secrets
import string
from collections import defaultdict
from typing import Any

from tools.fake_stripe.refusals import missing

Json = dict[str, Any]
PREFIXES = {
    "customer": "cus",
    "product": "prod",
    "price": "price",
    "checkout.session": "cs_test",
    "billing_portal.configuration": "bpc",
    "billing_portal.session": "bps",
    "subscription": "sub",
    "subscription_item": "si",
    "invoice": "in",
    "event": "evt",
}
"""What the ids of each kind begin with; a kind is a value of the field `object`."""
_ALPHABET = string.ascii_letters + string.digits
ID_LENGTH = 24


class Store:
    """Objects by kind and id, the oldest first."""

    def __init__(self) -> None:
        self.changes = 0
        """How often something changed; it never decreases, so that a change is never taken for what was saved."""
        self.clear()

    def clear(self) -> None:
        """Delete everything."""
        self.objects: defaultdict[str, dict[str, Json]] = defaultdict(dict)
        self.hidden: defaultdict[str, Json] = defaultdict(dict)
        """Id → what the API does not show, or only if it is expanded."""
        self.deleted: set[str] = set()
        self.changes += 1

    @staticmethod
    def new_id(kind: str) -> str:
        """Return an id that does not exist yet."""
        return f"{PREFIXES[kind]}_{''.join(secrets.choice(_ALPHABET) for _ in range(ID_LENGTH))}"

    def add(self, kind: str, fields: Json, *, identifier: str | None = None, hidden: Json | None = None) -> Json:
        """Add an object and return it; `hidden` is what the API does not show of it."""
        made = {"id": identifier or self.new_id(kind), "object": kind, **fields}
        self.objects[kind][made["id"]] = made
        self.hidden[made["id"]] = hidden or {}
        self.changes += 1
        return made

    def find(self, kind: str, identifier: str | None) -> Json | None:
        """Return an object, or None if there is none, or it was deleted."""
        return self.objects[kind].get(identifier or "") if identifier not in self.deleted else None

    def get(self, kind: str, identifier: str, param: str = "id") -> Json:
        """Return an object. Raise Refusal if there is none; `param` is the parameter that named it."""
        found = self.find(kind, identifier)
        if found is None:
            raise missing(kind, identifier, param)
        return found

    def all(self, kind: str) -> list[Json]:
        """Return all objects of a kind, the newest first, without deleted ones."""
        return [each for each in reversed(self.objects[kind].values()) if each["id"] not in self.deleted]

    def delete(self, record: Json) -> Json:
        """Delete an object, and return what is shown of it; what refers to it keeps its id."""
        self.deleted.add(record["id"])
        self.changes += 1
        return {"id": record["id"], "object": record["object"], "deleted": True}
