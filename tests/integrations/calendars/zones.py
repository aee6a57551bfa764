"""Definitions of zones as programs write them, and events in them."""

BERLIN = ("-1SU;BYMONTH=3", "T020000", "+0100", "+0200", "-1SU;BYMONTH=10", "T030000")
NEW_YORK = ("2SU;BYMONTH=3", "T020000", "-0500", "-0400", "1SU;BYMONTH=11", "T020000")
NOWHERE = ("1SU;BYMONTH=5", "T020000", "+0100", "+0200", "1SU;BYMONTH=7", "T030000")
WEEKLY = {"frequency": "weekly", "start_date": "2026-01-05", "by_day": ["MO"]}


def zone(name: str, rules: tuple[str, ...] = BERLIN, *lines: str) -> str:
    """Return a definition as Exchange writes it."""
    begins, at, standard, daylight, ends, until = rules
    return "\n".join(
        [
            f"BEGIN:VTIMEZONE\nTZID:{name}",
            *lines,
            f"BEGIN:STANDARD\nDTSTART:16010101{until}\nTZOFFSETFROM:{daylight}\nTZOFFSETTO:{standard}",
            f"RRULE:FREQ=YEARLY;INTERVAL=1;BYDAY={ends}\nEND:STANDARD",
            f"BEGIN:DAYLIGHT\nDTSTART:16010101{at}\nTZOFFSETFROM:{standard}\nTZOFFSETTO:{daylight}",
            f"RRULE:FREQ=YEARLY;INTERVAL=1;BYDAY={begins}\nEND:DAYLIGHT\nEND:VTIMEZONE\n",
        ]
    )


def fixed(name: str, offset: str) -> str:
    """Return the definition of a zone whose offset never changes."""
    return (
        f"BEGIN:VTIMEZONE\nTZID:{name}\nBEGIN:STANDARD\nDTSTART:16010101T000000\n"
        f"TZOFFSETFROM:{offset}\nTZOFFSETTO:{offset}\nEND:STANDARD\nEND:VTIMEZONE\n"
    )


def once(name: str, day: str = "20270701") -> str:
    return f'UID:1\nDTSTART;TZID="{name}":{day}T100000\nDTEND;TZID="{name}":{day}T120000'


def weekly(name: str, *lines: str) -> str:
    return "\n".join([once(name, "20260105"), "RRULE:FREQ=WEEKLY;BYDAY=MO;WKST=SU", *lines])
