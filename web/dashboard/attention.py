"""`/attention`: what keeps freezes from blocking and what waits for a decision, the latest first."""

from flask import Response

from rules import web_addresses
from web.dashboard.page import DashboardPage, filters
from web.operations import Call

_SEVERITIES = (("", "All"), ("critical", "Critical"), ("warning", "Warnings"), ("info", "Information"))


class Attention(DashboardPage):
    """The page."""

    path = section = web_addresses.ATTENTION

    def get(self) -> Response:
        """Show the items, of one severity if the address names one."""
        given = filters("severity", "cursor")
        [items] = self.read(Call("list_attention_items", query={"limit": 50, **given}))
        severity = given.get("severity", "")
        return self.show("attention.html", items=items, severity=severity, severities=_SEVERITIES)
