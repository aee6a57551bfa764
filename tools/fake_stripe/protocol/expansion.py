"""`expand`: objects in the place of their ids, and fields that are shown only if they are expanded."""

from dataclasses import dataclass, replace
from typing import Any

from tools.fake_stripe.kinds import KINDS, Kind
from tools.fake_stripe.refusals import invalid
from tools.fake_stripe.store import Json, Store

MAX_LEVELS = 4


def expand(store: Store, body: Json, paths: list[str]) -> Json:
    """Return a copy of an answer in which the paths are expanded. Raise Refusal for what cannot be."""
    for path in paths:
        steps = path.split(".")
        if len(steps) > MAX_LEVELS:
            raise invalid(f"You cannot expand more than {MAX_LEVELS} levels of a property.", "expand")
        body = _expanded(store, body, _Place(path, steps))
    return body


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in an answer an expansion is: what is left of its path, and how it came here from its object."""

    path: str
    steps: list[str]
    kind: Kind | None = None
    inside: str = ""

    def enter(self, value: Json) -> "_Place":
        """Return the place with the kind of the object that begins here, if one does."""
        kind = KINDS.get(value.get("object", ""))
        return replace(self, kind=kind, inside="") if kind else self

    def next(self) -> "_Place":
        """Return the place of the next step."""
        name, *rest = self.steps
        return replace(self, steps=rest, inside=f"{self.inside}{name}.")


def _expanded(store: Store, value: Any, place: _Place) -> Any:
    if not place.steps or value is None:
        return value
    if isinstance(value, list):
        return [_expanded(store, each, place) for each in value]
    place = place.enter(value)
    name, kind = place.steps[0], place.kind
    if kind and place.inside + name in kind.references:
        inner = value[name]
        if isinstance(inner, str):
            inner = shown(store, kind.references[place.inside + name], inner)
    elif kind and not place.inside and name in kind.included:
        inner = store.hidden[value["id"]].get(name)
    elif name in value and isinstance(value[name], dict | list | None) and place.steps[1:]:
        inner = value[name]
    else:
        raise _not_expandable(place.path)
    return {**value, name: _expanded(store, inner, place.next())}


def _not_expandable(path: str) -> Exception:
    return invalid(f"This property cannot be expanded ({path}).", "expand")


def shown(store: Store, kind: str, identifier: str) -> Json:
    """Return an object as the API shows it, also after its deletion."""
    if identifier in store.deleted:
        return {"id": identifier, "object": kind, "deleted": True}
    return store.objects[kind][identifier]
