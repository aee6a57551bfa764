"""Differences between two states of an object, for the audit log."""

from collections.abc import Mapping
from typing import Any

Fields = dict[str, Any]


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Fields, Fields]:
    """Return the fields that differ between two objects with the same keys, before and after; recursively."""
    old: Fields = {}
    new: Fields = {}
    for name, value in before.items():
        if value == after[name]:
            continue
        if isinstance(value, Mapping) and isinstance(after[name], Mapping) and value.keys() == after[name].keys():
            old[name], new[name] = differences(value, after[name])
        else:
            old[name], new[name] = value, after[name]
    return old, new
