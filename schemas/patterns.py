"""The patterns of requests in words, for error messages."""

import re

_IDENTIFIER = re.compile(r"\^([a-z]{3}_)\[0-9a-v\]\{26\}\$")
_NO_CONTROL = "must not contain control characters"
_WORDS = {
    r"^[!-~]+$": "must contain only visible ASCII characters, without spaces",
    r"^[ -~]+$": "must contain only printable ASCII characters",
    r"^[ -~]*$": "must contain only printable ASCII characters",
    r"^[^\x00-\x20\x7f]+$": "must not contain spaces or control characters",
    r"^[^\x00-\x1f\x7f]+$": _NO_CONTROL,
    r"^[^\x00-\x1f\x7f]*$": _NO_CONTROL,
    r"^[^\x00-\x08\x0a-\x1f\x7f]*$": _NO_CONTROL,
    r"^[^\x00]*$": "must not contain the character U+0000",
    r'^("[!-~]{1,255}"|[!-~]{1,255})$': "must be 1 to 255 visible ASCII characters, without spaces",
    r"^[^\x00-\x20\x7f~^:?*\[\\]+$": ("must be a branch name, without spaces and without ~ ^ : ? * [ or a backslash"),
    r"^[^\x00-\x20\x7f]([^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?$": (
        "must start and end with a visible character, and must not contain control characters"
    ),
    r"^[^\x00-\x1f\x7f]*[^\x00-\x20\x7f][^\x00-\x1f\x7f]*$": (
        "must contain a visible character, and no control characters"
    ),
    r"^([01][0-9]|2[0-3]):[0-5][0-9]$": "must be a time of day, such as 17:00",
    r"^20[0-9]{2}-(0[1-9]|1[0-2])$": "must be a month, such as 2026-12",
    r"^20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$": "must be a day, such as 2026-12-24",
    r"^[A-Z0-9]+$": "must contain only upper-case letters and digits, such as T0ACME",
    r"^[A-Z][A-Z0-9]+$": "must be an id of Slack, such as C0RELEASES",
    r"^https://[!-~]+$": "must be an https:// URL of visible ASCII characters",
    r"^[A-Za-z0-9][A-Za-z0-9_-]{0,94}(\[bot\]|[A-Za-z0-9_-]{0,5})$": (
        "must be a login at GitHub, such as octocat or dependabot[bot]"
    ),
    r"^[A-Za-z0-9][A-Za-z0-9_-]*/[A-Za-z0-9_][A-Za-z0-9_.-]*$": (
        "must be a team at GitHub, as organisation/team, such as acme/release-captains"
    ),
    r"^[A-Z]{2}$": "must be two upper-case letters, such as GB",
    r"^[A-Z]{3}$": "must be three upper-case letters, such as EUR",
    r"^(/[A-Za-z0-9_.~-]+)+$": "must be a path, such as /settings/billing",
    r"""^([*]|[\t ,]*(W/)?"[!#-~\x80-\xff]*"([\t ]*,([\t ,]*(W/)?"[!#-~\x80-\xff]*")?)*[\t ]*)$""": (
        'must be * or ETags in quotation marks, separated by commas, such as "2f1c0b7a9d3e4f58"'
    ),
    r"^[!-~]+( [!-~]+)*$": "must be words of visible ASCII characters, separated by single spaces",
    r"^([+-]?[1-5])?(MO|TU|WE|TH|FR|SA|SU)$": "must be a weekday, such as MO, or a counted weekday, such as -1FR",
}
_EMAIL = re.compile(r"\^\[[^\]]+\]\{1,64\}@")


def explain(pattern: str, value: object) -> str | None:
    """Return what a value must be that does not match a pattern; None for a pattern that no request has.

    An empty string is explained as by `minLength`, so that a schema with both reports it once.
    """
    if value == "":
        return "must have at least 1 character"
    if identifier := _IDENTIFIER.fullmatch(pattern):
        return f"must be an id: {identifier[1]} followed by 26 characters of 0-9 and a-v"
    if _EMAIL.match(pattern):
        rest = "" if str(value).isascii() else ", of ASCII characters: other domains are written as xn--…"
        return f"must be an e-mail address, such as eve@example.com{rest}"
    return _WORDS.get(pattern)
