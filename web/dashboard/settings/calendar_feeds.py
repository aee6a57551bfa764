"""`/settings/calendars`: addresses at which calendar programs read freezes and planned windows."""

from collections.abc import Mapping
from typing import Any

from flask import Response, g

from rules import web_addresses
from web.context import unknown_button
from web.dashboard.page import DashboardPage, filters, redirect_with_notice
from web.operations import Call, OperationError

_LABELS = {"name": "Name", "schedule_id": "Schedule", "repo": "Repository"}


class CalendarFeeds(DashboardPage):
    """The calendar feeds of the signed-in person."""

    path = web_addresses.CALENDAR_FEEDS
    section = web_addresses.SETTINGS
    notices = {"revoked": "The feed has ended."}

    def get(
        self,
        error: OperationError | None = None,
        given: Mapping[str, str] | None = None,
        created: Mapping[str, Any] | None = None,
    ) -> Response:
        """Show the feeds."""
        feeds, schedules = self.read(
            Call("list_calendar_feeds", query={"limit": 50, **filters("cursor")}),
            Call("list_schedules", query={"limit": 100}),
        )
        values: dict[str, Any] = {
            "feeds": feeds["data"],
            "next_cursor": feeds["nextCursor"],
            "schedules": [(each["id"], each["name"]) for each in schedules["data"]],
            "given": given or {},
            "created": created,
            "own": g.member.id,
        }
        return self.show_form("settings/calendar_feeds.html", error, _LABELS, **values)

    def post(self) -> Response:
        """Create a feed, whose address is shown once, or end one."""
        given = self.context.form_fields("do", "name", "schedule_id", "repo", "calendar_feed_id")
        try:
            if given["do"] == "revoke":
                self.context.call("revoke_calendar_feed", path_params={"calendarFeedId": given["calendar_feed_id"]})
                return redirect_with_notice(self.path, "revoked")
            if given["do"] != "create":
                raise unknown_button()
            names = {"name": "name", "schedule_id": "scheduleId", "repo": "repo"}
            body = {key: given[name] for name, key in names.items() if given[name]}
            created = self.context.call("create_calendar_feed", body=body).content
        except OperationError as error:
            return self.get(error, given)
        return self.get(created=created)
