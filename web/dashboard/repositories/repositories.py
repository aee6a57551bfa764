"""`/repositories` and `/repositories/{id}`: what the service may freeze, and whether it would block."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from flask import Response, request

from rules import web_addresses
from rules.errors import ServiceError
from rules.freezes.globs import compile_globs
from web.context import unknown_button
from web.dashboard.addresses import address_of
from web.dashboard.page import Change, DashboardPage, filters, next_state, redirect_with_notice, state_of
from web.fields import filled, split_list, to_number
from web.operations import Call, OperationError

_STATES = {"enabled": ("enabled", "true"), "disabled": ("enabled", "false"), "frozen": ("frozen", "true")}
"""Parameter and value of `GET /v1/repos` for each choice of the filter."""
_CHOICES = 100
"""Suggested branches, and repositories that a form may choose."""
_LABELS = {"name": "Branch", "auto_watch": "Patterns", "repositories": "Repositories"}
_ROWS = 50
_MOST = 1000
"""Repositories that are counted for the button that enables them all."""
_BATCH = 500
"""Repositories that one step enables, and somewhat more: the operation takes 1,000, in one transaction."""
_MAX_PAGES = 20
"""Of repositories that one step looks through."""
_DISABLED = {"enabled": "false", "archived": "false"}
"""The filter of repositories that can be enabled."""

Row = Mapping[str, Any]


class Repositories(DashboardPage):
    """The list, with the light of each repository."""

    path = section = web_addresses.REPOSITORIES
    notices = {
        "enabled": "The repositories are enabled, and their default branches are watched.",
        "disabled": "The repositories are disabled.",
        "syncing": "The list of repositories is being read from GitHub; reload the page in a moment.",
    }

    def get(self, error: OperationError | None = None) -> Response:
        """Show one page of the list."""
        given = filters("q", "state", "cursor")
        [installation] = self.read(Call("get_installation_status"))
        query: dict[str, str | int] = {}
        if given.get("state") in _STATES:
            name, value = _STATES[given["state"]]
            query[name] = value
        rows, more, next_cursor = self._rows(given, query)
        may_enable = self.may("enable_repositories")
        disabled, others = self._matching(given.get("q", ""), _DISABLED) if may_enable else ((), None)
        values = {
            "disabled": len(disabled),
            "or_more": others is not None,
            "repositories": rows,
            "more": more,
            "next_cursor": next_cursor,
            "installation": installation,
            "given": given,
            "none_enabled": not any(each["enabled"] for each in rows),
        }
        return self.show_form("repositories/repositories.html", error, _LABELS, **values)

    def post(self) -> Response:
        """Enable or disable repositories, or read the list from GitHub again."""
        given = self.context.form_fields("do")
        chosen = request.form.getlist("repository")[:_CHOICES]
        try:
            if given["do"] == "sync":
                self.context.call("sync_repositories")
                return redirect_with_notice(self.path, "syncing")
            if given["do"] == "enable_all":
                return self._enable_batch()
            if given["do"] not in {"enable", "disable"}:
                raise unknown_button()
            self.context.call(f"{given['do']}_repositories", body={"repositories": chosen})
        except OperationError as error:
            return self.get(error)
        return redirect_with_notice(self.path, f"{given['do']}d", **filters("q", "state"))

    def _enable_batch(self) -> Response:
        """Enable the next repositories that match; where more follow, a page whose form goes on with them."""
        given = self.context.form_fields("after", "done")
        q = filters("q").get("q", "")
        matching, after = self._matching(q, _DISABLED, _BATCH, _MAX_PAGES, given["after"])
        if matching:
            self.context.call("enable_repositories", body={"repositories": [each["id"] for each in matching]})
        if after is None:
            return redirect_with_notice(self.path, "enabled", **filters("q"))
        self.read()
        done = to_number(given["done"] or "0")
        enabled = (done if isinstance(done, int) else 0) + len(matching)
        return self.show("repositories/enabling.html", enabled=enabled, after=after, q=q)

    def _rows(self, given: Mapping[str, str], query: Mapping[str, str | int]) -> tuple[Sequence[Row], int, str | None]:
        """Return the rows of a page, how many more match a pattern, and the cursor of the next page."""
        if _is_pattern(given.get("q", "")):
            matching, _others = self._matching(given["q"], query)
            return matching[:_ROWS], max(0, len(matching) - _ROWS), None
        kept = {name: given[name] for name in ("q", "cursor") if name in given}
        [page] = self.read_part(Call("list_repositories", query={"limit": _ROWS, "sort": "name", **query, **kept}))
        return page["data"], 0, page["nextCursor"]

    def _matching(
        self,
        q: str,
        query: Mapping[str, str | int],
        most: int = _MOST,
        max_pages: int | None = None,
        cursor: str | None = None,
    ) -> tuple[Sequence[Row], str | None]:
        """Return repositories, by name, that match a name or patterns, and the cursor of those that follow.

        There are `most`, and fewer than 100 more, or those of so many pages. Raise OperationError.
        """
        matches = self._pattern(q) if _is_pattern(q) else None
        named = filled({"q": q if matches is None else _fixed_part(q), "cursor": cursor or ""})
        asked: dict[str, str | int] = {"limit": _CHOICES, "sort": "name", **query, **named}
        found: list[Row] = []
        for _ in count() if max_pages is None else range(max_pages):
            [page] = self.read_part(Call("list_repositories", query=asked))
            found += [each for each in page["data"] if matches is None or matches(each["fullName"])]
            cursor = page["nextCursor"]
            if cursor is None or len(found) >= most:
                break
            asked["cursor"] = cursor
        return found, cursor

    def _pattern(self, q: str) -> Callable[[str], bool]:
        """Return the function that tells whether patterns match a name. Raise OperationError."""
        try:
            return compile_globs(split_list(q), "repository", "/q").matches
        except ServiceError as error:
            raise self.context.to_operation_error(error) from None


class RepositoryPage(DashboardPage):
    """One repository: its branches, the patterns of branches to watch, and the form that watches another branch."""

    path = web_addresses.REPOSITORY
    section = web_addresses.REPOSITORIES
    notices = {
        "enabled": "The repository is enabled, and its default branch is watched.",
        "disabled": "The repository is disabled: no freeze covers it.",
        "watched": "The branch is watched from now on.",
        "unwatched": "The branch is no longer watched.",
        "patterns": "The patterns are saved; the branches that they match are watched.",
    }

    def get(
        self, item_id: str, error: OperationError | None = None, given: Mapping[str, str] | None = None
    ) -> Response:
        """Show the repository."""
        params = {"repoId": item_id}
        [repository, branches] = self.read(
            Call("get_repository", params),
            Call("list_repository_branches", params, {"limit": 100, **filters("cursor")}),
        )
        values = {
            "repository": repository,
            "shown": next_state(state_of(repository, "settings"), given, error),
            "branches": branches["data"],
            "next_cursor": branches["nextCursor"],
            "remote": self._remote_branches(params) if repository["enabled"] and self.may("watch_branch") else (),
            "given": given or {},
        }
        return self.show_form("repositories/repository.html", error, _LABELS, **values)

    def post(self, item_id: str) -> Response:
        """Do what the button says."""
        given = self.context.form_fields("do", "name", "auto_watch", "shown")
        try:
            notice = self._perform(item_id, given)
        except OperationError as error:
            return self.get(item_id, _at_fields(error), given)
        return redirect_with_notice(address_of(self.path, item_id), notice)

    def _perform(self, item_id: str, given: Mapping[str, str]) -> str:
        """Return the name of the notice of what was done. Raise OperationError."""
        do, call, params = given["do"], self.context.call, {"repoId": item_id}
        if do in {"enable", "disable"}:
            call(f"{do}_repositories", body={"repositories": [item_id]})
            return f"{do}d"
        if do == "watch":
            call("watch_branch", path_params=params, body={"name": given["name"]} if given["name"] else {})
            return "watched"
        if do == "patterns":
            patterns = split_list(given["auto_watch"])
            calls = Change("get_repository", "update_repository", ("settings",), params)
            self.change(calls, {"settings": {"autoWatch": patterns}}, given["shown"])
            return "patterns"
        raise unknown_button()

    def _remote_branches(self, params: Mapping[str, str]) -> Sequence[str]:
        """Return branches of the repository that are not watched, or none if GitHub does not list them now."""
        try:
            page = self.context.call("list_remote_branches", path_params=params, query={"limit": str(_CHOICES)}).content
        except OperationError:
            return ()
        return [each["name"] for each in page["data"] if not each["watched"]]


class Branches(DashboardPage):
    """`/branches`: the watched branches and their lights."""

    path = web_addresses.BRANCHES
    section = web_addresses.REPOSITORIES

    def get(self) -> Response:
        """Show one page of the branches, of one light or repository if the address names them."""
        given = filters("light", "repo", "cursor")
        [enforcement] = self.read(Call("get_enforcement", query={**given, "limit": 50}))
        return self.show("repositories/branches.html", enforcement=enforcement, given=given)


def _is_pattern(q: str) -> bool:
    """True if what is looked for is a list of patterns, and no part of a name."""
    return "*" in q or q.startswith("!")


def _fixed_part(q: str) -> str:
    """Return a text that every name has in it which a pattern matches; of several patterns, an empty one."""
    return "" if len(split_list(q)) != 1 or re.search(r"[^\w./*-]", q) else max(q.split("*"), key=len)[:100]


def _at_fields(error: OperationError) -> OperationError:
    """Return a refusal whose details name the fields of the forms."""
    for detail in error.details:
        if "autoWatch" in detail.path:
            message = f"auto_watch {detail.message.partition(' ')[2] or detail.message}"
            return error.with_details([type(detail)("/auto_watch", message)])
    return error
