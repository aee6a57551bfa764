"""What a process is configured with: clients of other services, and settings. Each is found by its type.

A package imports the types that it asks for, and nothing here imports them all. `app/wiring.py` makes them.
"""

from typing import Any, Self, TypeVar

Port = TypeVar("Port")


class Ports:
    """Clients and settings, one of each type. `None` stands for a client that is not configured."""

    def __init__(self, *given: object) -> None:
        self._given = [each for each in given if each is not None]
        self._found: dict[type[Any], Any] = {}

    def find(self, kind: type[Port]) -> Port | None:
        """Return the port of a type, or None if it is not configured."""
        if kind not in self._found:
            self._found[kind] = next((each for each in self._given if isinstance(each, kind)), None)
        found: Port | None = self._found[kind]
        return found

    def __getitem__(self, kind: type[Port]) -> Port:
        """Return the port of a type; settings that were not given have their defaults.

        Raise RuntimeError for what has no defaults.
        """
        found = self.find(kind)
        if found is None:
            try:
                found = self._found[kind] = kind()
            except TypeError as error:
                raise RuntimeError(f"{kind.__name__} is not configured") from error
        return found

    def having(self, *given: object) -> Self:
        """Return these ports with others in place of those of the same types."""
        kept = [each for each in self._given if not isinstance(each, tuple(map(type, given)))]
        return type(self)(*given, *kept)

    def without(self, kind: type[Any]) -> Self:
        """Return these ports without the one of a type."""
        return type(self)(*(each for each in self._given if not isinstance(each, kind)))
