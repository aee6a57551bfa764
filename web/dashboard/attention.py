"""`/attention`: what keeps freezes from blocking and what waits for a decision, by severity, the latest first."""

from typing import NamedTuple

from flask import Response, g

from rules import web_addresses
from web.dashboard.page import DashboardPage, filters
from web.operations import Call


class Severity(NamedTuple):
    """A severity in the words of the page."""

    name: str
    label: str
    none: str
    """What the page says if nothing has it."""


SEVERITIES = (
    Severity("critical", "Critical", "Nothing is critical"),
    Severity("warning", "Warnings", "No warnings"),
    Severity("info", "Information", "No information"),
)
_MAX_ROWS = 50
_MAX_ROWS_OF_GROUP = 20
"""Rows of each severity on the page of all; the page of one severity has the others."""


class Attention(DashboardPage):
    """What needs attention, by severity."""

    path = section = web_addresses.ATTENTION

    def get(self) -> Response:
        """Show the items of each severity that the frame counts any of, or of the one that the address names."""
        chosen = filters("severity").get("severity", "")
        if chosen:
            named = [each for each in SEVERITIES if each.name == chosen]
            lists = self.read(_list(chosen, _MAX_ROWS, **filters("cursor")))
        else:
            self.read()
            overview = g.frame["frame_overview"]
            named = [each for each in SEVERITIES if overview is None or overview["attention"][each.name]]
            lists = self.read_part(*(_list(each.name, _MAX_ROWS_OF_GROUP) for each in named))
        groups = [group for group in zip(named, lists, strict=True) if group[1]["data"]]
        return self.show("attention.html", groups=groups, severity=chosen, severities=SEVERITIES)


def _list(severity: str, limit: int, **place: str) -> Call:
    return Call("list_attention_items", query={"limit": limit, "severity": severity, **place})
