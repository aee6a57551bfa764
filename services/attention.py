"""What needs somebody's attention: items that are raised once for each cause, and cleared when it has gone."""

from dataclasses import dataclass
from typing import Literal

from services.unit import Unit

Severity = Literal["info", "warning", "critical"]


@dataclass(frozen=True, slots=True)
class Item:
    """Something to look at. `key` names its cause: a second one with the same key changes the open one's words."""

    key: str
    type: str
    severity: Severity
    subject: tuple[str, str, str]
    """Type, id and name of the object that it is about."""
    message: str
    action: tuple[str, str]
    """Label, and the path or address where something can be done."""


def raise_item(unit: Unit, item: Item) -> None:
    """Open an item of the unit's organisation, or bring the open one of the same key up to date."""


def clear_item(unit: Unit, key: str) -> None:
    """Close the open item of that key, if there is one."""
