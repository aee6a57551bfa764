"""The parameters of requests: what a method accepts, and how it is read from text.

A parameter that a method does not declare is refused, as Stripe refuses what it does not know. The tests hold every
declaration against the `stripe` package.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tools.fake_stripe.refusals import invalid, missing_parameter

MAX_TEXT = 5000
MAX_METADATA_KEYS = 50
MAX_METADATA_KEY = 40
MAX_METADATA_VALUE = 500


class Parameter(Protocol):
    """Reads one value, which was named `name`."""

    def read(self, value: Any, name: str) -> Any:
        """Return the value. Raise Refusal if it is not of this kind."""


@dataclass(frozen=True, slots=True)
class Text:
    """A string that is not empty."""

    maximum: int = MAX_TEXT

    def read(self, value: Any, name: str) -> str:
        """Return the text."""
        if not isinstance(value, str):
            raise invalid("Invalid string: {...}".replace("...", str(value)[:40]), name)
        if not value:
            message = (
                f"You passed an empty string for '{name}'. We assume empty values are an attempt to unset a parameter; "
                f"however '{name}' cannot be unset. You should remove '{name}' from your request or supply a non-empty "
                "value."
            )
            raise invalid(message, name, "parameter_invalid_empty")
        if len(value) > self.maximum:
            raise invalid(f"Invalid string: must be at most {self.maximum} characters", name)
        return value


@dataclass(frozen=True, slots=True)
class Address:
    """An absolute URL."""

    def read(self, value: Any, name: str) -> str:
        """Return the URL."""
        text = Text().read(value, name)
        if not text.startswith(("http://", "https://")):
            raise invalid("Not a valid URL", name, "url_invalid")
        return text


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number."""

    minimum: int | None = None
    maximum: int | None = None

    def read(self, value: Any, name: str) -> int:
        """Return the number."""
        text = value if isinstance(value, str) else ""
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal()):
            raise invalid(f"Invalid integer: {value}", name, "parameter_invalid_integer")
        number = int(text)
        if self.minimum is not None and number < self.minimum:
            message = f"This value must be greater than or equal to {self.minimum}."
            raise invalid(message, name, "parameter_invalid_integer")
        if self.maximum is not None and number > self.maximum:
            message = f"This value must be less than or equal to {self.maximum} (it currently is '{number}')."
            raise invalid(message, name, "parameter_invalid_integer")
        return number


@dataclass(frozen=True, slots=True)
class Flag:
    """`true` or `false`."""

    def read(self, value: Any, name: str) -> bool:
        """Return the boolean."""
        if value not in {"true", "false"}:
            raise invalid(f"Invalid boolean: {value}", name)
        return bool(value == "true")


@dataclass(frozen=True, slots=True, init=False)
class Choice:
    """One of some words."""

    words: tuple[str, ...]

    def __init__(self, *words: str) -> None:
        object.__setattr__(self, "words", words)

    def read(self, value: Any, name: str) -> str:
        """Return the word."""
        if value not in self.words:
            *some, last = self.words
            listed = f"{', '.join(some)}, or {last}" if len(some) > 1 else " or ".join(self.words)
            raise invalid(f"Invalid {name}: must be one of {listed}", name)
        return str(value)


@dataclass(frozen=True, slots=True)
class WordOr:
    """A word with a meaning of its own, or something else."""

    word: str
    other: Parameter

    def read(self, value: Any, name: str) -> Any:
        """Return the word, or the other value."""
        return value if value == self.word else self.other.read(value, name)


@dataclass(frozen=True, slots=True)
class Clearable:
    """What an empty string sets to null."""

    other: Parameter

    def read(self, value: Any, name: str) -> Any:
        """Return None for an empty string, else the value."""
        return None if value == "" else self.other.read(value, name)


@dataclass(frozen=True, slots=True)
class Many:
    """A list."""

    each: Parameter

    def read(self, value: Any, name: str) -> list[Any]:
        """Return the list."""
        if not isinstance(value, dict) or not all(key.isdecimal() for key in value):
            raise invalid("Invalid array", name)
        ordered = [value[key] for key in sorted(value, key=int)]
        return [self.each.read(one, f"{name}[{position}]") for position, one in enumerate(ordered)]


@dataclass(frozen=True, slots=True)
class Table:
    """An object with keys of the caller's choice."""

    each: Parameter

    def read(self, value: Any, name: str) -> dict[str, Any]:
        """Return the object."""
        if not isinstance(value, dict):
            raise invalid("Invalid object", name)
        return {key: self.each.read(one, f"{name}[{key}]") for key, one in value.items()}


@dataclass(frozen=True, slots=True)
class Metadata:
    """Metadata: a value that is empty deletes its key, an empty string deletes all."""

    def read(self, value: Any, name: str) -> dict[str, str]:
        """Return the keys and values, which `merged_metadata` applies."""
        if value == "":
            return {"": ""}
        if not isinstance(value, dict):
            raise invalid("Invalid object", name)
        for key, text in value.items():
            if len(key) > MAX_METADATA_KEY:
                raise invalid(f"Metadata keys can be at most {MAX_METADATA_KEY} characters", name)
            if not isinstance(text, str):
                raise invalid("Metadata values must be strings", f"{name}[{key}]")
            if len(text) > MAX_METADATA_VALUE:
                message = f"Metadata values can have up to {MAX_METADATA_VALUE} characters, but you passed in a value "
                raise invalid(f"{message}that is {len(text)} characters", f"{name}[{key}]")
        return value


def merged_metadata(before: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return metadata after a change. Raise Refusal if there is too much of it."""
    merged = {} if given == {"": ""} else {**before, **given}
    kept = {key: value for key, value in merged.items() if value}
    if len(kept) > MAX_METADATA_KEYS:
        raise invalid(f"Metadata can have up to {MAX_METADATA_KEYS} keys", "metadata")
    return kept


@dataclass(frozen=True, slots=True, init=False)
class Fields:
    """An object with declared fields; names that end in `!` are required."""

    known: dict[str, Parameter]
    required: frozenset[str]

    def __init__(self, declared: Mapping[str, Parameter]) -> None:
        object.__setattr__(self, "known", {name.rstrip("!"): each for name, each in declared.items()})
        object.__setattr__(self, "required", frozenset(name[:-1] for name in declared if name.endswith("!")))

    def with_more(self, optional: Mapping[str, Parameter]) -> "Fields":
        """Return the object with further fields that are not required."""
        declared = {f"{name}!" if name in self.required else name: each for name, each in self.known.items()}
        return Fields({**declared, **optional})

    def read(self, value: Any, name: str = "") -> dict[str, Any]:
        """Return what was given. Raise Refusal for unknown, missing and wrong fields."""
        if not isinstance(value, dict):
            raise invalid("Invalid object", name)
        unknown = [_nested(name, key) for key in value if key not in self.known]
        if unknown:
            plural = "s" if len(unknown) > 1 else ""
            message = f"Received unknown parameter{plural}: {', '.join(unknown)}"
            raise invalid(message, unknown[0], "parameter_unknown")
        for key in self.known:
            if key in self.required and key not in value:
                raise missing_parameter(_nested(name, key))
        return {key: self.known[key].read(one, _nested(name, key)) for key, one in value.items()}


def _nested(name: str, key: str) -> str:
    return f"{name}[{key}]" if name else key


NOTHING = Fields({})
RANGE = Fields({"gt": Whole(), "gte": Whole(), "lt": Whole(), "lte": Whole()})


@dataclass(frozen=True, slots=True)
class Moment:
    """A filter by time: a timestamp, or bounds."""

    def read(self, value: Any, name: str) -> dict[str, int]:
        """Return the bounds."""
        if isinstance(value, str):
            return dict.fromkeys(("gte", "lte"), Whole().read(value, name))
        return RANGE.read(value, name)


POSTAL_ADDRESS = Fields({name: Text() for name in ("city", "country", "line1", "line2", "postal_code", "state")})
