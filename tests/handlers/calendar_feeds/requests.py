"""Creating a calendar feed and reading its calendar, as three parsers understand it."""

from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
import icalendar
import recurring_ical_events
from ical.calendar_stream import IcsCalendarStream

from tests.handlers.callers import Caller, Tenant, answered

FEEDS = "/v1/calendar-feeds"
WANTED = {"name": "Team calendar"}


def new_feed(caller: Caller, **body: Any) -> dict[str, Any]:
    """Have a member create a feed, and return the answer with the path of its address as `path`."""
    shown = answered(caller.post(FEEDS, {**WANTED, **body}), 201)
    return {**shown, "path": urlsplit(shown["url"]).path}


def read(acme: Tenant, feed: dict[str, Any], **headers: str) -> httpx.Response:
    """Read a calendar as programs do: without a credential."""
    return acme.http.get(feed["path"], headers=headers)


def events(answer: httpx.Response) -> dict[str, Any]:
    """Return the events of a calendar by the id in their UID, as three parsers read it."""
    assert answer.status_code == 200, answer.text
    calendar = icalendar.Calendar.from_ical(answer.content)
    found: dict[str, Any] = {str(one["UID"]).partition("@")[0]: one for one in calendar.walk("VEVENT")}
    strict = {str(one.uid).partition("@")[0]: one for one in IcsCalendarStream.calendar_from_ics(answer.text).events}
    assert strict.keys() == found.keys()
    for event_id, one in strict.items():
        event = found[event_id]
        shown = (one.summary, one.description, one.dtstart, one.dtend, one.sequence)
        assert shown == (str(event["SUMMARY"]), str(event["DESCRIPTION"]), event.start, event.end, event["SEQUENCE"])
    expanded = recurring_ical_events.of(calendar).between(datetime(2000, 1, 1), datetime(2100, 1, 1))  # noqa: DTZ001 - UTC
    assert len(expanded) == len(found)
    return found


def only(answer: httpx.Response) -> Any:
    [event] = events(answer).values()
    return event
