"""Writes a calendar that programs subscribe to (RFC 5545, and the properties of RFC 7986 for whole calendars)."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from icalendar import Calendar, Event
from icalendar.prop import vDuration, vText, vUri

from rules.time.calendar_events import CalendarEvent

REFRESH_INTERVAL = timedelta(hours=1)
_PRODUCT = "-//Change-Freeze Service//Calendar feed//EN"
_SECOND = timedelta(seconds=1)


def write_calendar(name: str, description: str, events: Iterable[CalendarEvent], *, web_url: str) -> bytes:
    """Return the calendar with these events, which link to pages of the web origin."""
    calendar = Calendar()
    calendar.add("prodid", _PRODUCT)
    calendar.add("version", "2.0")
    calendar.add("calscale", "GREGORIAN")
    for property_name, value in (("name", name), ("x-wr-calname", name)):
        calendar.add(property_name, vText(value))
    for property_name in ("description", "x-wr-caldesc"):
        calendar.add(property_name, vText(description))
    calendar.add("refresh-interval", vDuration(REFRESH_INTERVAL), {"VALUE": "DURATION"})
    calendar.add("x-published-ttl", vDuration(REFRESH_INTERVAL))
    for event in events:
        calendar.add_component(_component(event, web_url))
    return bytes(calendar.to_ical())


def _component(event: CalendarEvent, web_url: str) -> Event:
    component = Event()
    starts_at = event.starts_at.replace(microsecond=0)
    component.add("uid", event.id)
    component.add("dtstamp", event.changed_at)
    component.add("last-modified", event.changed_at)
    component.add("sequence", event.sequence)
    component.add("dtstart", starts_at)
    component.add("dtend", max(_rounded_up(event.ends_at), starts_at + _SECOND))
    component.add(
        "summary", f"{event.state.capitalize()}: {event.texts.name}{' (no end yet)' if event.is_open else ''}"
    )
    component.add("description", _description(event, web_url))
    component.add("status", "CONFIRMED" if event.state == "frozen" else "CANCELLED")
    component.add("transp", "TRANSPARENT")
    component.add("url", vUri(web_url + event.page))
    return component


def _description(event: CalendarEvent, web_url: str) -> str:
    texts = event.texts
    end = "It has no end yet: it is shown until the end of the day." if event.is_open else None
    return "\n".join(filter(None, (texts.reason, f"Covers: {texts.scope}", texts.by, end, web_url + event.page)))


def _rounded_up(instant: datetime) -> datetime:
    return instant if not instant.microsecond else instant.replace(microsecond=0) + _SECOND
