"""The activity of a repository: every change of where its branches point."""

from urllib.parse import urlencode

from tools.fake_github.answers import MAX_PER_PAGE, PER_PAGE
from tools.fake_github.model.records import Activity
from tools.fake_github.model.refusals import Refusal
from tools.fake_github.payloads.activities import activity_json
from tools.fake_github.rest.routing import Call, route
from tools.simulation.answers import Answer

DOCUMENTATION = "https://docs.github.com/rest/repos/repos#list-repository-activities"


def _selected(call: Call) -> list[Activity]:
    """Apply `ref` (full, or the branch's name), `actor` and `activity_type`; the newest first by default."""
    query = call.query
    branch, how = query.get("ref", "").removeprefix("refs/heads/"), query.get("activity_type")
    actor = call.world.logins.get(query.get("actor", "").lower())
    if query.get("actor") and actor is None:
        return []
    found = [
        each
        for each in call.repository.activities
        if (not branch or each.branch == branch)
        and (not how or each.how == how)
        and (actor is None or each.actor_id == actor.id)
    ]
    return sorted(found, key=lambda each: each.id, reverse=query.get("direction", "desc") == "desc")


def _place(found: list[Activity], cursor: str) -> int:
    """Return where the activity of a cursor stands."""
    place = next((place for place, each in enumerate(found) if str(each.id) == cursor), None)
    if place is None:
        raise Refusal(422, "Invalid cursor", documentation=DOCUMENTATION)
    return place


@route("GET", "/repos/{owner}/{repo}/activity", "contents:read")
def list_activities(call: Call) -> Answer:
    """List activities page by page, by opaque cursors (`after`, `before`) that the `Link` header gives."""
    found, query = _selected(call), call.query
    asked = query.get("per_page", "")
    size = max(1, min(int(asked) if asked.isdigit() else PER_PAGE, MAX_PER_PAGE))
    start = _place(found, query["after"]) + 1 if query.get("after") else 0
    if query.get("before"):
        start = max(0, _place(found, query["before"]) - size)
    shown = found[start : start + size]
    kept = {name: value for name, value in query.items() if name not in {"after", "before"}}
    links = []
    if start + size < len(found):
        links.append(f'<{call.url}?{urlencode({**kept, "after": shown[-1].id})}>; rel="next"')
    if start:
        links.append(f'<{call.url}?{urlencode({**kept, "before": shown[0].id})}>; rel="prev"')
    headers = {"Link": ", ".join(links)} if links else {}
    return Answer(200, [activity_json(call.view, each) for each in shown], headers)
