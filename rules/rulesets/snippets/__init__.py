"""Snippets: texts that set a ruleset up, or switch it off and on, with an administrator's own tools and without us."""

from collections.abc import Iterable
from unicodedata import is_normalized

from rules.rulesets.needs import Level
from rules.rulesets.snippets import curl, gh, ruleset_json, terraform
from rules.rulesets.snippets.place import PlacedRuleset, Purpose, Snippet, Tool

__all__ = ["Level", "PlacedRuleset", "Purpose", "Snippet", "Tool", "snippets_of"]


def snippets_of(places: Iterable[PlacedRuleset]) -> list[Snippet]:
    """Return the snippets of every tool for each place.

    Terraform brings every string into Unicode's form NFC, and so has none for a branch whose name is not in it.
    """
    made: list[Snippet] = []
    for place in places:
        made += [*gh.snippets(place), *curl.snippets(place)]
        if is_normalized("NFC", place.ruleset["name"]):
            made += terraform.snippets(place)
        made += ruleset_json.snippets(place)
    return made
