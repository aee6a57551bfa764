"""Scopes in forms: their kinds in words, and the scope of the contract that the fields describe.

The form offers repositories by name: those that are chosen, and the first ones that match what is looked for.
"""

from collections.abc import Mapping
from typing import Any

from flask import Response

from rules import web_addresses
from web.dashboard.page import DashboardPage
from web.fields import filled, split_list
from web.operations import Call

SCOPES = {
    "branch": ("One branch", ""),
    "repositories": ("Some repositories", ""),
    "glob": ("Repositories that match a pattern", "Also those to come."),
    "organization": ("The whole organisation", "Every watched branch, also of repositories to come."),
}
"""Labels and hints of the kinds of scopes."""
SCOPE_LABELS = {
    "scope": "What it freezes",
    "patterns": "Patterns",
    "repositories": "Repositories",
    "branches": "Branches",
    "repository": "Repository",
    "branch": "Branch",
}
"""Labels of the fields by their names."""
FIELD_OF_SCOPE = {
    "organization": "branches",
    "glob": "patterns",
    "repositories": "repositories",
    "branch": "branch",
}
"""Where a problem of the scope is shown, if it names no field."""
FIND = "find"
"""The field that looks for repositories, and the button that does so without scripts."""
_MAX_OFFERED = 50

Given = Mapping[str, str]
"""The fields of a form."""


def scope_of(given: Given) -> dict[str, Any]:
    """Return the scope; fields of other kinds, and those of a branch that are empty, are left out."""
    kind = given["scope"]
    scope: dict[str, Any] = {"type": kind}
    if kind == "branch":
        if given["branch"].startswith("wbr_") and not given["repository"]:
            return {**scope, "branchId": given["branch"]}
        return scope | {name: given[name] for name in ("repository", "branch") if given[name]}
    if kind in {"glob", "repositories"}:
        name = "patterns" if kind == "glob" else "repositories"
        scope[name] = split_list(given[name])
    if branches := split_list(given.get("branches", "")):
        scope["branches"] = branches
    return scope


def scope_fields_of(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return what the fields show of a scope of the API."""
    return {
        "scope": scope["type"],
        "patterns": ", ".join(scope.get("patterns", ())),
        "repositories": "\n".join(scope.get("repositories", ())),
        "branches": ", ".join(scope.get("branches", ())),
        "repository": scope.get("repository", ""),
        "branch": scope.get("branch") or scope.get("branchId", ""),
    }


def is_complete(given: Given) -> bool:
    """True if the form says what to freeze."""
    if given["scope"] == "branch":
        return bool(given["branch"] and (given["repository"] or given["branch"].startswith("wbr_")))
    if given["scope"] in {"glob", "repositories"}:
        return bool(split_list(given["patterns" if given["scope"] == "glob" else "repositories"]))
    return given["scope"] == "organization"


def offer(page: DashboardPage, given: Given) -> dict[str, Any]:
    """Return what the fields show: the kinds, the chosen repositories, and others that match what is looked for."""
    query: dict[str, str | int] = {"enabled": "true", "sort": "name", "limit": _MAX_OFFERED}
    [listed] = page.read_part(Call("list_repositories", query=query | filled({"q": given.get(FIND, "")})))
    chosen = split_list(given.get("repositories", ""))
    known = {name.lower() for name in chosen}
    names = [each["fullName"] for each in listed["data"]]
    others = [name for name in names if name.lower() not in known]
    return {"scopes": SCOPES, "chosen": chosen, "others": others, "more": listed["nextCursor"] is not None}


class RepositoryChoices(DashboardPage):
    """`/repositories/choices`: the part of a form that offers the repositories that match what is looked for."""

    path = web_addresses.REPOSITORY_CHOICES
    section = web_addresses.REPOSITORIES

    def post(self) -> Response:
        """Show them."""
        given = self.context.form_fields("repositories", FIND)
        return self.show_part("choices.html", **offer(self, given))
