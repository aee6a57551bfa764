"""`/attention`: what keeps freezes from blocking and what waits for a decision, by severity, the latest first."""

from typing import NamedTuple

from flask import Response

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
        """Show the items of each severity, or of the one that the address names."""
        chosen = filters("severity").get("severity", "")
        shown = [each for each in SEVERITIES if each.name == chosen] or SEVERITIES
        limit, place = (_MAX_ROWS, filters("cursor")) if chosen else (_MAX_ROWS_OF_GROUP, {})
        queries: list[dict[str, str | int]] = [
            {"limit": limit, "severity": chosen or each.name, **place} for each in shown
        ]
        lists = self.read(*(Call("list_attention_items", query=query) for query in queries))
        groups = [group for group in zip(shown, lists, strict=True) if group[1]["data"]]
        return self.show("attention.html", groups=groups, severity=chosen, severities=SEVERITIES)
