"""Ruleset JSON: as GitHub's API accepts it, and its page `Rules → Import a ruleset`."""

from rules.rulesets.snippets.place import ENFORCEMENT, SWITCHES, PlacedRuleset, Purpose, Snippet, title
from rules.rulesets.snippets.quoting import json_text


def snippets(place: PlacedRuleset) -> list[Snippet]:
    """Return the ruleset itself, and the bodies that switch it off and on again."""
    enable = title(place, "enable", f"body of POST /{place.path}, or a file for “Import a ruleset”")
    return [
        Snippet("ruleset_json", place.level, "enable", "json", enable, json_text(place.ruleset)),
        *(_switch(place, purpose) for purpose in SWITCHES),
    ]


def _switch(place: PlacedRuleset, purpose: Purpose) -> Snippet:
    means = title(place, purpose, f"body of PUT /{place.path}/{{ruleset_id}}")
    return Snippet(
        "ruleset_json", place.level, purpose, "json", means, json_text({"enforcement": ENFORCEMENT[purpose]})
    )
