"""GitHub's own command line, `gh api`: https://cli.github.com/manual/gh_api."""

from rules.snippets.place import API_VERSION, ENFORCEMENT, SWITCHES, Place, Purpose, Snippet, title
from rules.snippets.quoting import here_document, jq_string, shell_word

_MEANS = "with gh, signed in as an administrator (gh auth login)"


def snippets(place: Place) -> list[Snippet]:
    """Return the commands that create the ruleset, switch it off, and on again."""
    create = f"{_api(place)} --method POST {shell_word(place.path)} --input - "
    content = create + here_document(place.ruleset, "RULESET")
    return [
        Snippet("gh", place.level, "enable", "shell", title(place, "enable", _MEANS), content),
        *(_switch(place, purpose) for purpose in SWITCHES),
    ]


def _api(place: Place) -> str:
    host = f" --hostname {shell_word(place.host)}" if place.host else ""
    return f"gh api{host} -H 'X-GitHub-Api-Version: {API_VERSION}'"


def _switch(place: Place, purpose: Purpose) -> Snippet:
    found = f".[] | select(.name == {jq_string(place.found_as)}) | .id"
    content = "\n".join(
        [
            f"ruleset_id=$({_api(place)} --paginate '{place.listing}' \\",
            f"  --jq '{found}') &&",
            f'{_api(place)} --method PUT "{place.path}/${{ruleset_id:?there is no such ruleset}}" \\',
            f"  --raw-field enforcement={ENFORCEMENT[purpose]}",
        ]
    )
    return Snippet("gh", place.level, purpose, "shell", title(place, purpose, _MEANS), content)
