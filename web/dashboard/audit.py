"""`/audit`: who did what, filtered by the address; and `/audit/export`, the same rows as a file."""

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlencode

import orjson
from flask import Response, request

from rules import web_addresses
from rules.notifications.sentences import sentence_of_entry
from web.dashboard.page import DashboardPage, filters
from web.devices import device_label
from web.fields import day_range
from web.operations import Call

SOURCES = {
    "dashboard": "Dashboard",
    "api": "API key",
    "mcp": "MCP client",
    "compat": "Compatibility API",
    "slack": "Slack",
    "schedule": "Schedule",
    "code_host": "GitHub",
    "system": "The service",
}
"""Words for the means by which something was done."""
_FILTERS = ("action", "actorId", "targetId", "source", "from", "to", "q")
_HEADERS = ("content-type", "content-disposition")


class Audit(DashboardPage):
    """The log, newest first."""

    path = section = web_addresses.AUDIT

    def get(self) -> Response:
        """Show one page of the entries that match."""
        given = filters(*_FILTERS, "cursor")
        wanted = {name: text for name, text in given.items() if name != "cursor"}
        entries, actions, entitlements, *people = self.read(
            Call("list_audit_entries", query={**query_of(given), "limit": 50}),
            Call("list_audit_actions", query={"limit": 100}),
            Call("get_entitlements"),
            Call("list_members", query={"limit": 100}),
        )
        meanings = self._meanings(actions)
        presets = self._presets()
        return self.show(
            "audit.html",
            entries=entries["data"],
            changes=changes_of,
            sentences=[_sentence(entry, meanings) for entry in entries["data"]],
            actions=_actions(meanings, presets, wanted.get("action", "")),
            people=_people(*people),
            presets=[(text, of, f"{self.path}?{urlencode(of)}") for text, of in presets.items()],
            sources=SOURCES,
            given=wanted,
            next_cursor=entries["nextCursor"],
            days=entitlements["limits"]["auditRetentionDays"],
            export=web_addresses.AUDIT_EXPORT + (f"?{urlencode(wanted)}" if wanted else ""),
        )

    def _presets(self) -> dict[str, dict[str, str]]:
        """Return what people come for, with the filters that show it: the examples of the filter in the contract."""
        parameters = self.context.contract.operations["list_audit_entries"].parameters
        action = next(each for each in parameters if each.name == "action")
        return {text: {"action": value} for text, value in action.examples.items()}

    def _meanings(self, page: Mapping[str, Any]) -> dict[str, str]:
        """Return the meaning of each action."""
        found = {row["action"]: row["meaning"] for row in page["data"]}
        while page["nextCursor"] is not None:
            query = {"limit": "100", "cursor": page["nextCursor"]}
            page = self.context.call("list_audit_actions", query=query).content
            found |= {row["action"]: row["meaning"] for row in page["data"]}
        return found


class AuditExport(DashboardPage):
    """The file, sent as it is read."""

    path = web_addresses.AUDIT_EXPORT
    section = web_addresses.AUDIT

    def get(self) -> Response:
        """Send the file; a refusal is a page."""
        self.read()
        if request.method == "HEAD":
            return Response(mimetype="text/csv")
        streamed = self.context.open_stream(Call("export_audit", query=query_of(filters(*_FILTERS))))
        headers = {name: value for name in _HEADERS if (value := streamed.header(name.encode()))}
        return Response(cast(Any, streamed), headers=headers, direct_passthrough=True)


def query_of(given: Mapping[str, str]) -> dict[str, str]:
    """Return the filters as the operations read them."""
    return {**given, **day_range(given, "from", "to")}


def _actions(
    meanings: Mapping[str, str], presets: Mapping[str, Mapping[str, str]], wanted: str
) -> list[tuple[str, str]]:
    """Return the options of the filter: presets, then each action by its meaning; always what is filtered by."""
    offered = [(of["action"], text) for text, of in presets.items()]
    offered += sorted(meanings.items(), key=lambda each: each[1])
    if wanted and wanted not in dict(offered):
        offered.insert(0, (wanted, ", ".join(wanted.split(","))))
    return offered


def _sentence(entry: Mapping[str, Any], meanings: Mapping[str, str]) -> str:
    """Return the sentence on an entry; a session is named after its browser."""
    target = entry["target"] or {}
    if target.get("type") == "session" and target.get("name"):
        entry = {**entry, "target": {**target, "name": device_label(target["name"])}}
    return sentence_of_entry(entry, meanings.get(entry["action"], ""))


def _people(members: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return id and name of each member, by name."""
    return sorted(((each["userId"], each["name"]) for each in members["data"]), key=lambda each: each[1].casefold())


def changes_of(details: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return what an entry changed: property, value before and after; then its other details, with one value."""
    before, after = details.get("before") or {}, details.get("after") or {}
    names = [*before, *(name for name in after if name not in before)]
    changed = [(name, _text(before.get(name)), _text(after.get(name))) for name in names]
    others = [(name, "", _text(value)) for name, value in details.items() if name not in {"before", "after"}]
    return changed + others


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else orjson.dumps(value).decode()
