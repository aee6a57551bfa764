"""Whether freezes really block: the service, the credential, the App, each branch's light, what needs attention."""

from collections.abc import Iterator

from change_freeze_cli.api import Answer, Api
from change_freeze_cli.errors import RefusedError
from change_freeze_cli.text import count, table
from change_freeze_cli.views import Json, Time, rows_of


def examine(api: Api) -> tuple[Answer, list[Json]]:
    """Return the enforcement that the service reports, and its branches that are not green, of all pages."""
    first = api.get("/v1/enforcement", limit=100)
    branches: list[Json] = []
    for light in ("red", "amber"):
        cursor: object = None
        while True:
            page = api.get("/v1/enforcement", light=light, limit=100, cursor=cursor).json
            branches += rows_of(page)
            cursor = page.get("nextCursor")
            if not cursor:
                break
    return first, branches


def report(api: Api, enforcement: Json, branches: list[Json], time: Time) -> Iterator[str]:
    """Yield what was found, the worst first."""
    yield f"service      {api.url} answers"
    yield f"signed in    {_section(api, '/v1/orgs/current', 'name')}"
    yield f"GitHub App   {_section(api, '/v1/installations/status', 'state')}"
    counts = ", ".join(f"{number} {light}" for light, number in (enforcement.get("counts") or {}).items())
    yield f"enforcement  {enforcement.get('light')} ({counts})"
    rows = [
        (f"{one.get('repository')}:{one.get('branch')}", one.get("light"), found.get("code"), found.get("message"))
        for one in branches
        for found in rows_of(one, "findings") or [{}]
    ]
    if rows:
        yield from table(("BRANCH", "LIGHT", "FINDING", "WHAT IT MEANS"), rows)
    items = api.get("/v1/attention", limit=100).json
    attention = [
        (one.get("severity"), one.get("type"), time(one.get("since")), one.get("message")) for one in rows_of(items)
    ]
    if attention:
        yield f"{count(len(attention), 'thing needs', 'things need')} attention:"
        yield from table(("SEVERITY", "WHAT", "SINCE", "MESSAGE"), attention)


def _section(api: Api, path: str, field: str) -> str:
    """Return a field of an object, or that the credential may not see it."""
    try:
        return str(api.get(path).json.get(field))
    except RefusedError as error:
        return f"not shown to this credential ({error.code})"
