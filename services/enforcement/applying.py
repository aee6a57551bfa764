"""Applying: writing the rulesets of a setup that was asked for, with the App's own permission."""

from integrations.github import GitHub
from services.unit import Unit, Units


def setups_wait(unit: Unit) -> bool:
    """Tell whether a setup is due that nobody is at; for the sweeper."""
    return False


def apply_due(units: Units, github: GitHub) -> bool:
    """Write the rulesets of one setup that is due; False when none is."""
    return False
