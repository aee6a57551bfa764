"""Settings that a control plane shows and changes; written in JSON with camelCase names."""

from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(slots=True)
class Settings:
    """Base of a simulation's settings: a dataclass whose fields can be read and set by their camelCase names."""

    def as_json(self) -> dict[str, Any]:
        """Return all settings with camelCase names."""
        return {camel(name): value for name, value in asdict(self).items()}

    def update(self, given: dict[str, Any]) -> None:
        """Set what is given. Raise ValueError if a name is unknown."""
        known = {camel(each.name): each.name for each in fields(self)}
        for name, value in given.items():
            if name not in known:
                raise ValueError(f"unknown setting {name}")
            setattr(self, known[name], value)


def camel(name: str) -> str:
    """`webhook_url` → `webhookUrl`."""
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)
