"""Landings: commits that arrive on frozen branches, who brought them there, and what is to be thought of it."""

from collections.abc import Iterable

from integrations.github import BranchHeads, GitHub
from services.unit import Unit, Units


def note_tips(unit: Unit, seen: Iterable[tuple[str, BranchHeads]]) -> None:
    """Write down the commits that branches (by id) point at; one that moved under a freeze is looked into."""


def landings_wait(unit: Unit) -> bool:
    """Tell whether commits wait to be looked into; for the sweeper."""
    return False


def examine_landings(units: Units, github: GitHub) -> bool:
    """Look into the branches of one installation whose commits are due; False when none is."""
    return False
