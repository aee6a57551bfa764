"""Submissions of forms: the answer closes the form, shows something else in it, or shows errors below its fields."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from rules.freezes.reasons import MIN_REASON_LENGTH, is_reason
from rules.freezes.scope import OPEN_ENDED
from rules.plain_text import one_line
from rules.slack import actions as names
from rules.slack import answers, forms
from rules.slack.commands import read_scope
from rules.slack.pages import Pages
from rules.slack.payloads import Submission
from rules.time.instants import format_instant
from slack_app.calls import Call, Calls, RefusedError

Answer = dict[str, Any]
_MAX_ERROR = 300
"""Characters of the error below a field."""
_FIELDS = {
    "scope": names.SCOPE,
    "endsAt": names.UNTIL,
    "reason": names.REASON,
    "pullRequest": names.PULL_REQUEST,
    "repo": names.PULL_REQUEST,
}
"""The field of a form by the first step of a JSON Pointer into the body of the operation."""
_CLOSE: Answer = {"response_action": "clear"}


async def submit(submission: Submission, calls: Calls, pages: Pages) -> Answer:
    """Do what a form says, and return the answer to it."""
    submit_form = _FORMS.get(submission.form)
    if submit_form is None:
        return _CLOSE
    try:
        return await submit_form(submission, calls, pages)
    except RefusedError as error:
        return _refused(submission, error)


def _refused(submission: Submission, error: RefusedError) -> Answer:
    """Return the answer that shows errors below their fields; one without a field is below the last field."""
    fields = submission.fields
    if not fields:
        return show("Not done", answers.refusal(error.message).text)
    errors: dict[str, str] = {}
    for path, message in error.fields:
        field = _FIELDS.get(path.strip("/").partition("/")[0], fields[-1])
        errors.setdefault(field if field in fields else fields[-1], one_line(message, _MAX_ERROR))
    return _errors(errors or {fields[-1]: one_line(error.message, _MAX_ERROR)})


def show(title: str, text: str) -> Answer:
    """Return the answer that shows a text in place of the form."""
    return {"response_action": "update", "view": forms.done_form(title, text)}


async def _start(submission: Submission, calls: Calls, pages: Pages) -> Answer:
    """Start a freeze; if its scope is open-ended (everything, or patterns), show first how much it reaches."""
    values = submission.values
    wanted: dict[str, Any] = {
        "scope": _written(values, names.SCOPE),
        "until": values.get(names.UNTIL),
        "reason": _reason(values),
    }
    try:
        scope = read_scope(wanted["scope"])
    except ValueError as error:
        return _errors({names.SCOPE: str(error)})
    if scope["type"] not in OPEN_ENDED:
        return await _freeze(wanted, scope, {}, submission, calls, pages)
    if not is_reason(wanted["reason"].strip()):
        return _errors({names.REASON: f"Write at least {MIN_REASON_LENGTH} visible characters."})
    preview = await calls.call("preview_scope", Call(body={"scope": scope}))
    return {"response_action": "update", "view": forms.confirm_form(wanted, preview)}


async def _confirm(submission: Submission, calls: Calls, pages: Pages) -> Answer:
    try:
        wanted = forms.confirmed_values(submission.metadata)
        scope = read_scope(wanted["scope"])
    except ValueError:
        return _CLOSE
    confirmed = {"previewedRepoCount": wanted["count"]}
    return await _freeze(wanted, scope, confirmed, submission, calls, pages)


async def _freeze(
    wanted: Mapping[str, Any],
    scope: Mapping[str, Any],
    confirmed: Mapping[str, int],
    submission: Submission,
    calls: Calls,
    pages: Pages,
) -> Answer:
    until = wanted["until"]
    ends_at = None if until is None else format_instant(datetime.fromtimestamp(until, UTC))
    body = {"scope": scope, "reason": wanted["reason"], "endsAt": ends_at, **confirmed}
    freeze = await calls.call("create_freeze", Call(body=body, key=submission.key))
    return show("Merging is frozen", answers.started(freeze, pages))


async def _request(submission: Submission, calls: Calls, pages: Pages) -> Answer:
    values = submission.values
    body = {"pullRequest": _written(values, names.PULL_REQUEST).strip(), "reason": _reason(values)}
    exceptions = await calls.call("create_exception_request", Call(body=body, key=submission.key))
    return show("Exception requested", answers.requested(exceptions["data"], pages))


async def _deny(submission: Submission, calls: Calls, _pages: Pages) -> Answer:
    reason = _reason(submission.values).strip()
    path_params = {"exceptionId": submission.metadata}
    body = {"decision": "deny"} | ({"reason": reason} if reason else {})
    await calls.call("decide_exception_request", Call(path_params=path_params, body=body, key=submission.key))
    return _CLOSE


def _reason(values: Mapping[str, str | int]) -> str:
    """Return the reason without control characters, which a confirmation could not carry; line feeds stay."""
    return "".join(letter for letter in _written(values, names.REASON) if letter >= " " or letter == "\n")


def _written(values: Mapping[str, str | int], field: str) -> str:
    return str(values.get(field, ""))


def _errors(errors: Mapping[str, str]) -> Answer:
    return {"response_action": "errors", "errors": dict(errors)}


_FORMS: Mapping[str, Callable[[Submission, Calls, Pages], Awaitable[Answer]]] = {
    names.START_FORM: _start,
    names.CONFIRM_FORM: _confirm,
    names.REQUEST_FORM: _request,
    names.DENY_FORM: _deny,
}
