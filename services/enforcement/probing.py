"""Probing: reading the code host's active rules of each branch, and recording what they make of our check."""

from collections.abc import Collection

from integrations.github import GitHub
from services.unit import Unit, Units


def ask_for_probes(unit: Unit, branch_ids: Collection[str]) -> None:
    """Have branches probed now."""


def probes_wait(unit: Unit) -> bool:
    """Tell whether a probe is due that nobody is at; for the sweeper."""
    return False


def probe_due(units: Units, github: GitHub) -> bool:
    """Probe the branches of one installation that are due; False when none is."""
    return False
