"""Plain HTTP with curl; the token is in the environment, never in the text."""

from rules.rulesets.snippets.place import API_VERSION, ENFORCEMENT, SWITCHES, PlacedRuleset, Purpose, Snippet, title
from rules.rulesets.snippets.quoting import here_document, jq_string, shell_word

TOKEN = "GITHUB_TOKEN"  # noqa: S105 -- the name of a variable
_MEANS = f"with curl and an administrator's token in {TOKEN}"


def snippets(place: PlacedRuleset) -> list[Snippet]:
    """Return the commands that create the ruleset, switch it off, and on again."""
    create = f"{_curl()} \\\n  --request POST {shell_word(f'{place.api_url}/{place.path}')} --data-binary @- "
    content = create + here_document(place.ruleset, "RULESET")
    return [
        Snippet("curl", place.level, "enable", "shell", title(place, "enable", _MEANS), content),
        *(_switch(place, purpose) for purpose in SWITCHES),
    ]


def _curl() -> str:
    return " \\\n  ".join(
        [
            "curl --fail-with-body --silent --show-error",
            f'--header "Authorization: Bearer ${{{TOKEN}:?is not set}}"',
            "--header 'Accept: application/vnd.github+json'",
            f"--header 'X-GitHub-Api-Version: {API_VERSION}'",
            "--header 'Content-Type: application/json'",
        ]
    )


def _switch(place: PlacedRuleset, purpose: Purpose) -> Snippet:
    found = f".[] | select(.name == {jq_string(place.found_as)}) | .id"
    rulesets = shell_word(f"{place.api_url}/{place.path}/")
    body = f'{{"enforcement": "{ENFORCEMENT[purpose]}"}}'
    content = "\n".join(
        [
            f"ruleset_id=$({_curl()} \\",
            f"  {shell_word(f'{place.api_url}/{place.listing}')} | jq '{found}') &&",
            f"{_curl()} \\",
            f'  --request PUT {rulesets}"${{ruleset_id:?{place.missing}}}" \\',
            f"  --data-binary '{body}'",
        ]
    )
    return Snippet("curl", place.level, purpose, "shell", title(place, purpose, f"{_MEANS}, and jq"), content)
