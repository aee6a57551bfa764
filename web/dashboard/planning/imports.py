"""`/import`: schedules from a calendar file or from the holidays of a country, first as a dry run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flask import Response, g, request

from rules import web_addresses
from web.context import PageContext, missing_field
from web.dashboard.page import DashboardPage, redirect_with_notice
from web.dashboard.planning.forms import SHARED_LABELS, at_fields
from web.dashboard.planning.words import describe_days, describe_window
from web.dashboard.scopes import FIND, offer, scope_of
from web.fields import split_list, to_number
from web.forms import MAX_FILE_BYTES
from web.operations import OperationError

LABELS = {
    "file": "Calendar file",
    "content": "Calendar file",
    "country": "Country",
    "subdivision": "Region",
    "years": "Years",
    "timezones": "Time zones of the file",
    **SHARED_LABELS,
}
"""Labels of the fields by their names."""
FLAGS = {
    "day_before": "dayBefore",
    "together": "together",
    "observances": "observances",
    "remove_missing": "removeMissing",
    "restore_deleted": "restoreDeleted",
    "apply_to_active": "applyToActive",
    "exceptions_allowed": "exceptionsAllowed",
    "allow_overlap": "allowOverlap",
}
"""Properties of the request by the names of their boxes."""
_OF_HOLIDAYS = ("together", "observances")
_FIELDS = (*(name for name in LABELS if name not in {"file", "content"}), *FLAGS, "format", FIND, "do")
ACTIONS = {
    "refused": ("Refused", "Prevents the import"),
    "created": ("Created", "Would be created"),
    "updated": ("Changed", "Would be changed"),
    "removed": ("Deleted", "Would be deleted"),
    "missing": ("No longer in the calendar", "No longer in the calendar"),
    "skipped": ("Skipped", "Would be skipped"),
    "unchanged": ("As it is", "As it is"),
}
"""What became of an event, and what would become of it."""
_CHANGING = ("updated", "removed")


class Import(DashboardPage):
    """The form that imports a calendar, and what an import did or would do."""

    path = web_addresses.IMPORT
    section = web_addresses.CALENDAR

    def get(self) -> Response:
        """Show the form."""
        self.read()
        timezone = g.member.settings["timezone"]
        year = self.today().year
        values = {
            "format": "holidays" if request.args.get("from") == "holidays" else "ics",
            "scope": "organization",
            "timezone": timezone,
            "years": f"{year}, {year + 1}",
            "start_time": "00:00",
            "end_time": "00:00",
            "days": "1",
            "exceptions_allowed": "on",
            "allow_overlap": "on",
        }
        return self.show("planning/import.html", **self._form(values))

    def post(self) -> Response:
        """Show what the import would do, or do it."""
        given = self.context.form_fields(*_FIELDS, "content")
        self.read()
        form = self._form(given)
        if given["do"] == FIND:
            return self.show("planning/import.html", **form)
        try:
            content = given["content"] or self._uploaded() if given["format"] == "ics" else ""
            country = _country_code(self.context, given["country"]) if given["format"] == "holidays" else ""
            applies = given["do"] == "apply"
            result = self.context.call(
                "import_schedules", body={**_body({**given, "country": country}, content), "dryRun": not applies}
            ).content
        except OperationError as error:
            return self.show_form("planning/import.html", at_fields(error), LABELS, **form)
        values = {
            "result": result,
            "rows": _rows(result["data"]),
            "content": content,
            "fields": {name: given[name] for name in _FIELDS if name != "do"},
            "actions": ACTIONS,
            "in_force": any(row["activeFreeze"] and row["action"] in _CHANGING for row in result["data"]),
        }
        if applies and not result["counts"]["missing"]:
            return redirect_with_notice(web_addresses.SCHEDULES, "imported")
        return self.show("planning/import_result.html", **values)

    def _uploaded(self) -> str:
        """Return the text of the file that was sent. Raise OperationError."""
        file = request.files.get("file")
        raw = file.read(MAX_FILE_BYTES + 1) if file is not None else b""
        if not raw:
            raise missing_field("file", "Choose the file of a calendar (.ics).")
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise missing_field("file", "The file is not text in UTF-8; export the calendar as .ics again.") from None

    def _form(self, values: Mapping[str, str]) -> dict[str, Any]:
        return {
            "values": values,
            "captions": LABELS,
            **offer(self, values),
        }


class ImportCountries(DashboardPage):
    """The countries that the field of the form suggests, when it gets the focus."""

    path = web_addresses.IMPORT_COUNTRIES
    section = web_addresses.CALENDAR

    def get(self) -> Response:
        """Show their names."""
        names = sorted(country["name"] for country in _countries(self.context))
        return self.show_part("suggestions.html", suggested=names)


def _countries(context: PageContext) -> Iterator[Mapping[str, Any]]:
    """Yield the countries whose holidays can be imported."""
    query = {"limit": "100"}
    while True:
        page = context.call("list_holiday_countries", query=query).content
        yield from page["data"]
        if page["nextCursor"] is None:
            return
        query["cursor"] = page["nextCursor"]


def _country_code(context: PageContext, text: str) -> str:
    """Return the code of a country by its name, or by its code. Raise OperationError."""
    wanted = text.strip().casefold()
    for country in _countries(context):
        if wanted in {country["code"].casefold(), country["name"].casefold()}:
            return str(country["code"])
    raise missing_field("country", "Enter a country that has holidays to import, by its name or code.")


def _body(given: Mapping[str, str], content: str) -> dict[str, Any]:
    """Return the body of the import."""
    window = {"startTime": given["start_time"], "endTime": given["end_time"], "days": to_number(given["days"] or "0")}
    body: dict[str, Any] = {"format": given["format"], "scope": scope_of(given), "window": window}
    body |= {name: given[name] for name in ("timezone", "reason") if given[name]}
    for name, key in FLAGS.items():
        if given["format"] == "holidays" or name not in _OF_HOLIDAYS:
            body[key] = bool(given[name])
    if given["format"] == "ics":
        zones = [line.partition("=") for line in given["timezones"].splitlines() if "=" in line]
        return {**body, "content": content, "timezones": {name.strip(): zone.strip() for name, _, zone in zones}}
    place = {name: given[name] for name in ("country", "subdivision") if given[name]}
    return {**body, **place, "years": [to_number(text) for text in split_list(given["years"])]}


def _rows(events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the events in the order of what becomes of them, with their terms in words."""
    order = list(ACTIONS)
    return [
        {**event, "words": _words(event["terms"]), "was": _words(event["before"])}
        for event in sorted(events, key=lambda event: order.index(event["action"]) if event["action"] in order else 0)
    ]


def _words(terms: Mapping[str, Any] | None) -> str:
    if terms is None:
        return ""
    return f"{describe_days(terms['recurrence'])}, {describe_window(terms['window'])} ({terms['timezone']})"
