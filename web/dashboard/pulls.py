"""`/pulls`: what freezes forbid to merge; of one pull request why, until when, and how to ask for an exception."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from flask import Response, request

from rules import web_addresses
from rules.freezes.pull_references import MAX_LISTED
from web.context import unknown_button
from web.dashboard.exceptions import LABELS, may_decide, terms_of
from web.dashboard.page import DashboardPage, filters, redirect_with_notice
from web.operations import Call, OperationError
from web.problems import problems_of

_MAX_ROWS = 50
_CALLS = {"request": "create_exception_request", "grant": "create_exception"}


class PullRequest(DashboardPage):
    """The list of what freezes forbid to merge, or the page of one pull request."""

    path = section = web_addresses.PULL_REQUEST
    notices = {
        "requested": "The exception is requested. The pull request must not be merged until it is granted.",
        "granted": "The exception is granted. Its check is being written.",
    }

    def get(self) -> Response:
        """Show the verdict about the pull request that the address names, several of one commit, or the list."""
        given, refs = filters("repo"), [ref for each in request.args.getlist("ref") if (ref := each.strip())]
        if not refs:
            return self._show_list()
        self.read()
        if len(refs) > 1:
            return self._show_several([{**given, "ref": ref} for ref in refs[:MAX_LISTED]])
        [(pull, problem)] = self._find([{**given, "ref": refs[0]}])
        ref = f"{pull['repository']}#{pull['number']}" if pull else refs[0]
        values = {"ref": ref, "pull": pull, "problem": problem}
        return self.show("pull.html", 404 if problem else 200, may_decide=may_decide(), **values)

    def _show_list(self) -> Response:
        """Show what freezes forbid to merge: of the organisation, or what the address names."""
        given = filters("repo", "freeze", "branch")
        named = {"freeze": ("get_freeze", "freezeId"), "branch": ("get_branch", "branchId")}
        query = {named[name][1] if name in named else name: text for name, text in given.items()}
        asked = {name: Call(named[name][0], {named[name][1]: given[name]}) for name in named if name in given}
        listed = Call("list_forbidden_pull_requests", query={"limit": _MAX_ROWS, **query, **filters("cursor")})
        pulls, *about = self.read(listed, *asked.values())
        return self.show("pulls.html", pulls=pulls, given=given, about=dict(zip(asked, about, strict=True)))

    def _show_several(self, queries: Sequence[Mapping[str, str]]) -> Response:
        found = self._find(queries)
        pulls = [pull for pull, _ in found if pull]
        problems = [f"{query['ref']}: {problem}" for query, (_, problem) in zip(queries, found, strict=True) if problem]
        return self.show("pulls_of_commit.html", 200 if pulls else 404, pulls=pulls, not_found=problems)

    def _find(self, queries: Sequence[Mapping[str, str]]) -> list[tuple[Any, str | None]]:
        """Return each pull request, or why there is none."""
        answers = self.try_all(*(Call("lookup_pull_request", query=query) for query in queries))
        return [(None, _problem_of(each)) if isinstance(each, OperationError) else (each, None) for each in answers]


def _problem_of(error: OperationError) -> str:
    """Return why there is no pull request. Raise the error if it has another cause."""
    if error.status not in {400, 404, 422}:
        raise error
    return problems_of(error, {"ref": "Pull request"})[0].message


class RequestException(DashboardPage):
    """`/pulls/request?ref=…`: ask for an exception from every freeze that covers the pull request."""

    path = f"{web_addresses.PULL_REQUEST}/request"
    section = web_addresses.PULL_REQUEST

    def get(self) -> Response:
        """Show the form."""
        return self.show("request_exception.html", **self._values(request.args.get("ref", "")))

    def post(self) -> Response:
        """Request it, or grant it at once."""
        given = self.context.form_fields("ref", "reason", "expires_at", "zone", "pin", "do")
        if given["do"] not in _CALLS:
            raise unknown_button()
        try:
            body = {"pullRequest": given["ref"], "reason": given["reason"], **terms_of(given)}
            self.context.call(_CALLS[given["do"]], body=body)
        except OperationError as error:
            if error.status != 422 and not error.details:
                raise
            values = self._values(given["ref"])
            return self.show_form("request_exception.html", error, LABELS, given=given, **values)
        notice = "granted" if given["do"] == "grant" else "requested"
        return redirect_with_notice(web_addresses.PULL_REQUEST, notice, ref=given["ref"])

    def _values(self, ref: str) -> Mapping[str, Any]:
        [pull] = self.read(Call("lookup_pull_request", query={"ref": ref}))
        return {
            "pull": pull,
            "ref": ref,
            "may_decide": may_decide(),
            "back": f"{web_addresses.PULL_REQUEST}?{urlencode({'ref': ref})}",
        }
