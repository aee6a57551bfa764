"""`/freezes/new`: start a freeze, or plan one, with its impact shown before.

The form sends the counts that were shown with it. They are compared with what the scope covers when it is sent, so that
nothing starts whose impact has not been seen, with scripts or without. What begins later, or again, becomes a schedule.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flask import Response, g

from rules import web_addresses
from rules.errors import Detail
from rules.freezes.reasons import MIN_REASON_LENGTH, is_reason
from web.context import unknown_button
from web.dashboard.addresses import address_of
from web.dashboard.freezes import end_of
from web.dashboard.page import DashboardPage, filters, redirect_with_notice, state_of
from web.dashboard.planning import short_terms
from web.dashboard.planning.short_terms import MAX_NAME, QUICK_ENDS, REPEATS, is_planned
from web.dashboard.scopes import FIELD_OF_SCOPE, FIND, SCOPE_LABELS, is_complete, offer, scope_of
from web.operations import Call, OperationError
from web.problems import problems_of
from web.reader_zone import reader_zone

WIDE = 50
"""Number of branches above which a freeze needs its count typed; one of the organisation always does."""
_WINDOWS = 3
"""Windows that are shown of what is planned."""
_FIELDS = (
    "scope", "patterns", "repositories", "repository", "branch", "branches", "reason", "public_text", "starts_at",
    "ends_at", "zone", "repeats", "until", "name", "exceptions", "exception_rules", "allow_overlap", "previewed",
    "confirmed", FIND, "do",
)  # fmt: skip
_LABELS = SCOPE_LABELS | {
    "reason": "The reason",
    "public_text": "The text in public repositories",
    "starts_at": "The start",
    "ends_at": "The end",
    "until": "The last day",
    "name": "The name",
    "confirmed": "The number of branches",
}
_FIELDS_OF_PATHS = {
    "publicText": "public_text",
    "recurrence/until": "until",
    "recurrence": "starts_at",
    "timezone": "starts_at",
    "window": "ends_at",
    "endsAt": "ends_at",
}
"""Fields by the properties of the bodies, or by the objects that these are in."""
_OWN = 20
"""Freezes among which the scope that was used last is looked for."""


class NewFreeze(DashboardPage):
    """The form that starts or plans a freeze, with its impact."""

    path = web_addresses.NEW_FREEZE
    section = web_addresses.FREEZES

    def get(self) -> Response:
        """Show the form with its impact: of what the address names, or of the branch or repositories used last."""
        named = filters("repository", "branch")
        times = {name: short_terms.start_of_day(text) for name, text in filters("from", "to").items()}
        self.read()
        scope = {"scope": "branch", "repository": "", "branch": "", **named} if named else self._used_last()
        repeats = filters("repeats").get("repeats", "never")
        given = {
            **dict.fromkeys(_FIELDS, ""),
            **scope,
            "starts_at": times.get("from", ""),
            "ends_at": times.get("to", ""),
            "zone": reader_zone() or g.member.settings["timezone"],
            "repeats": repeats if repeats in REPEATS else "never",
            "exceptions": "1",
            "exception_rules": "1",
        }
        return self._page(given)

    def post(self) -> Response:
        """Start or plan the freeze, if its impact has been seen; otherwise show it."""
        given = self.context.form_fields(*_FIELDS)
        _, _, quick_end = given["do"].partition("end:")
        if quick_end in QUICK_ENDS:
            page = self._form(short_terms.with_quick_end(given, quick_end, self.context.clock()))
            page.headers["HX-Trigger"] = "input"  # an impact that was asked for before may be answered after it
            return page
        try:
            if given["do"] != "start":
                return self._form(given)
            preview = self._check(given)
            return self._plan(given) if is_planned(given) else self._start(given, preview)
        except OperationError as error:
            refused = error.status in {401, 403, 404, 429} and error.code != "feature_not_available"
            if error.status >= 500 or refused:
                raise
            return self._form(given, _at_fields(error, given["scope"]))

    def _start(self, given: Mapping[str, str], preview: Mapping[str, Any]) -> Response:
        """Start the freeze now."""
        body = {**_terms_of(given), "previewedRepoCount": preview["repositoryCount"]}
        if given["ends_at"]:
            body["endsAt"] = end_of(given)
        freeze = self.context.call("create_freeze", body=body).content
        done = "started_again" if freeze["alreadyFrozenCount"] else "started"
        return redirect_with_notice(address_of(web_addresses.FREEZE, freeze["id"]), done)

    def _plan(self, given: Mapping[str, str]) -> Response:
        """Create the schedule of a freeze that begins later, or again."""
        name = given["name"] or " ".join(given["reason"].split())[:MAX_NAME].strip()
        body = {**_terms_of(given), **short_terms.terms_of(given), "name": name}
        created = self.context.call(
            "create_schedule", body={**body, "allowOverlap": bool(given["allow_overlap"])}
        ).content
        return redirect_with_notice(address_of(web_addresses.SCHEDULE, created["id"]), "created")

    def _form(self, given: Mapping[str, str], error: OperationError | None = None) -> Response:
        """Return the page of a form that was sent, with its problems."""
        self.read()
        return self._page(given, error)

    def _page(self, given: Mapping[str, str], error: OperationError | None = None) -> Response:
        """Return the page with what was entered, its impact, and its problems."""
        values = {
            "given": given,
            "quick_ends": QUICK_ENDS,
            "repeats": REPEATS,
            "allowed": self.may("create_freeze"),
            "overlaps": error is not None and error.code == "schedule_overlap",
            **offer(self, given),
            **self._impact(given),
        }
        if error is None:
            return self.show("new_freeze.html", **values)
        return self.show_form("new_freeze.html", error, _LABELS, **values)

    def _used_last(self) -> dict[str, str]:
        """Return the branch or the repositories of the newest freeze by hand, the reader's own first; or any branch."""
        [freezes] = self.read_part(Call("list_freezes", query={"source": "manual", "limit": _OWN}))
        named = [each for each in freezes["data"] if _fields_of(each["scope"])]
        own = [each for each in named if each["createdBy"].get("id") == g.member.id]
        for each in (*own, *named):
            return _fields_of(each["scope"])
        [known] = self.read_part(
            Call("list_repositories", query={"enabled": "true", "archived": "false", "sort": "name", "limit": 1})
        )
        place = {each["fullName"]: each["defaultBranch"] for each in known["data"]}
        repository, branch = next(iter(place.items()), ("", ""))
        return {"scope": "branch", "repository": repository, "branch": branch}

    def _impact(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Return what the page shows of the impact of the entered scope, and of the windows that are planned."""
        calls = [Call("preview_scope", body={"scope": scope_of(given)})] if is_complete(given) else []
        try:
            impact = _impact_of(given, self.read_part(*calls))
        except OperationError as refused:
            _require_about_fields(refused)
            impact = {"preview": None, "unknown": refused.message}
        return {"planned": is_planned(given), **self._windows(given), **impact}

    def _windows(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Return the next windows of what is planned, in words too, or why there are none."""
        if not is_planned(given) or short_terms.problems_of_times(given, self.context.clock()):
            return {}
        terms = short_terms.terms_of(given)
        scope = {"scope": scope_of(given)} if is_complete(given) else {}
        try:
            [windows] = self.read_part(Call("preview_schedule_draft", body={**terms, **scope, "limit": _WINDOWS}))
        except OperationError as refused:
            _require_about_fields(refused)
            shown = _at_fields(refused, given["scope"])
            return {"without_windows": problems_of(shown, _LABELS)[0].message}
        return {"windows": windows, "sentence": short_terms.describe(terms)}

    def _check(self, given: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the impact. Raise OperationError with all that is wrong, also with the fields beside the scope."""
        problems = _reason_problems(given) + short_terms.problems_of_times(given, self.context.clock())
        try:
            preview: Mapping[str, Any] = self.context.call("preview_scope", body={"scope": scope_of(given)}).content
            _check_seen(given, preview)
        except OperationError as error:
            if not problems:
                raise
            raise error.with_details([*(error.details or [Detail("", error.message)]), *problems]) from None
        if problems:
            raise OperationError(422, "validation_failed", problems[0].message, details=problems)
        return preview


class Impact(NewFreeze):
    """The impact of the freeze that is being entered."""

    path = f"{web_addresses.NEW_FREEZE}/impact"

    def post(self) -> Response:
        """Show the impact."""
        given = self.context.form_fields(*_FIELDS)
        if given["scope"] not in FIELD_OF_SCOPE:
            raise unknown_button()
        return self.show_part("new_freeze_impact.html", given=given, **self._impact(given))


def _terms_of(given: Mapping[str, str]) -> dict[str, Any]:
    """Return what bodies of a freeze and of a schedule have alike."""
    body: dict[str, Any] = {
        "scope": scope_of(given),
        "reason": given["reason"],
        "exceptionsAllowed": given["exceptions"] == "1",
        "exceptionRulesAllowed": given["exception_rules"] == "1",
    }
    return {**body, "publicText": given["public_text"]} if given["public_text"] else body


def _fields_of(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a scope of a branch, or of repositories; empty for any other one."""
    if scope["type"] == "branch" and scope.get("repository") and scope.get("branch"):
        return {name: scope[name] for name in ("repository", "branch")} | {"scope": "branch"}
    if scope["type"] == "repositories":
        lists = {name: "\n".join(scope.get(name) or ()) for name in ("repositories", "branches")}
        return {**lists, "scope": "repositories"}
    return {}


def _impact_of(given: Mapping[str, str], previews: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the page shows of the impact of the entered scope."""
    if not previews:
        return {"preview": None, "unknown": "Choose what to freeze to see what it covers."}
    wide = is_wide(given["scope"], previews[0]["branchCount"])
    return {"preview": previews[0], "typed": wide, "seen": _mark_of(given, previews[0])}


def _require_about_fields(refused: OperationError) -> None:
    """Raise the refusal of a preview if it is not because of what was entered."""
    if refused.status not in {400, 409, 422}:
        raise refused


def is_wide(kind: str, branches: int) -> bool:
    """True if the number of branches has to be typed before a freeze starts."""
    return kind == "organization" or branches > WIDE


def _reason_problems(given: Mapping[str, str]) -> list[Detail]:
    """Return what is wrong with the reason."""
    if is_reason(given["reason"]):
        return []
    return [Detail("/reason", f"reason must have at least {MIN_REASON_LENGTH} characters")]


def _check_seen(given: Mapping[str, str], preview: Mapping[str, Any]) -> None:
    """Raise OperationError unless the form was sent with the present impact, and typed where it is wide."""
    if given["previewed"] != _mark_of(given, preview):
        raise OperationError(422, "impact_preview_required", "Check below what the freeze covers now, then start it.")
    if is_wide(given["scope"], preview["branchCount"]) and given["confirmed"] != str(preview["branchCount"]):
        message = f"Type {preview['branchCount']}, the number of branches that the freeze covers, to confirm it."
        raise OperationError(422, "impact_preview_required", message, details=(Detail("/confirmed", message),))


def _mark_of(given: Mapping[str, str], preview: Mapping[str, Any]) -> str:
    """Return a mark of the entered scope and of what it covers, which the form sends as `previewed`."""
    seen = {"scope": scope_of(given), **{name: preview[name] for name in ("repositoryCount", "branchCount")}}
    return state_of(seen, *seen)


def _at_fields(error: OperationError, kind: str) -> OperationError:
    """Return the error with its problems at the fields of the form."""
    details = []
    for detail in error.details:
        path = detail.path.removeprefix("/")
        first, _, rest = path.partition("/")
        field = _FIELDS_OF_PATHS.get(path) or _FIELDS_OF_PATHS.get(first) or first
        if first == "scope":
            named = rest.partition("/")[0]
            field = named if named in SCOPE_LABELS else FIELD_OF_SCOPE.get(kind, "")
        details.append(replace(detail, path=f"/{field}"))
    return error.with_details(details)
