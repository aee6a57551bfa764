"""Writes a calendar that programs subscribe to (RFC 5545, and the properties of RFC 7986 for whole calendars)."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from icalendar import Calendar, Event
from icalendar.prop import vDuration, vText, vUri

from rules.time.calendar_events import CalendarEvent

REFRESH_INTERVAL = timedelta(hours=1)
_PRODUCT = "-//Change-Freeze Service//Calendar feed//EN"
_SECOND = timedelta(seconds=1)


def write_calendar(name: str, description: str, events: Iterable[CalendarEvent], *, web_url: str) -> bytes:
    """Return the calendar with these events; the host of the web origin makes their ids unique."""
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
    component.add("uid", f"{event.id}@{urlsplit(web_url).hostname or 'localhost'}")
    component.add("dtstamp", event.changed_at)
    component.add("last-modified", event.changed_at)
    component.add("sequence", event.sequence)
    component.add("dtstart", starts_at)
    component.add("dtend", max(_rounded_up(event.ends_at), starts_at + _SECOND))
    component.add("summary", f"{'Skipped' if event.cancelled else 'Frozen'}: {event.name}")
    component.add("description", event.reason)
    component.add("status", "CANCELLED" if event.cancelled else "CONFIRMED")
    component.add("transp", "TRANSPARENT")
    component.add("url", vUri(web_url + event.page))
    return component


def _rounded_up(instant: datetime) -> datetime:
    return instant if not instant.microsecond else instant.replace(microsecond=0) + _SECOND
