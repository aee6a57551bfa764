"""What the audit tells of a change: what is different, and nothing else."""

from collections.abc import Mapping
from typing import Any

Told = dict[str, Any]


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Told, Told]:
    """Return the entries of two objects with the same keys that differ, before and after; objects inside likewise."""
    old: Told = {}
    new: Told = {}
    for name, value in before.items():
        if value == after[name]:
            continue
        if isinstance(value, Mapping) and isinstance(after[name], Mapping) and value.keys() == after[name].keys():
            old[name], new[name] = differences(value, after[name])
        else:
            old[name], new[name] = value, after[name]
    return old, new
