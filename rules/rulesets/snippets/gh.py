"""GitHub's own command line, `gh api`: https://cli.github.com/manual/gh_api."""

from rules.rulesets.snippets.place import API_VERSION, ENFORCEMENT, SWITCHES, PlacedRuleset, Purpose, Snippet, title
from rules.rulesets.snippets.quoting import here_document, jq_string, shell_word

_MEANS = "with gh, signed in as an administrator (gh auth login)"
_MEANS_BY_ADDRESS = "with gh and an administrator's token in GH_ENTERPRISE_TOKEN"


def snippets(place: PlacedRuleset) -> list[Snippet]:
    """Return the commands that create the ruleset, switch it off, and on again."""
    create = f"{_api(place)} --method POST {shell_word(_address(place, place.path))} --input - "
    content = create + here_document(place.ruleset, "RULESET")
    return [
        Snippet("gh", place.level, "enable", "shell", title(place, "enable", _means(place)), content),
        *(_switch(place, purpose) for purpose in SWITCHES),
    ]


def _api(place: PlacedRuleset) -> str:
    host = f" --hostname {shell_word(place.host)}" if place.host and place.found_by_name else ""
    return f"gh api{host} -H 'X-GitHub-Api-Version: {API_VERSION}'"


def _address(place: PlacedRuleset, path: str) -> str:
    return path if place.found_by_name else f"{place.api_url}/{path}"


def _means(place: PlacedRuleset) -> str:
    return _MEANS if place.found_by_name else _MEANS_BY_ADDRESS


def _switch(place: PlacedRuleset, purpose: Purpose) -> Snippet:
    found = f".[] | select(.name == {jq_string(place.found_as)}) | .id"
    rulesets = shell_word(_address(place, place.path))
    content = "\n".join(
        [
            f"ruleset_id=$({_api(place)} --paginate {shell_word(_address(place, place.listing))} \\",
            f"  --jq '{found}') &&",
            f'{_api(place)} --method PUT {rulesets}/"${{ruleset_id:?{place.missing}}}" \\',
            f"  --raw-field enforcement={ENFORCEMENT[purpose]}",
        ]
    )
    return Snippet("gh", place.level, purpose, "shell", title(place, purpose, _means(place)), content)
