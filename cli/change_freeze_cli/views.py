"""What commands print of the API's objects. Fields and values that are new or missing do no harm."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from change_freeze_cli.text import NOTHING, count, table

Time = Callable[[object], str]
Json = Mapping[str, Any]


def rows_of(body: Json, name: str = "data") -> list[Json]:
    """Return the objects of a list."""
    found = body.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def scope_text(scope: object) -> str:
    """Return a scope in a few words; one of a new type by its type."""
    if not isinstance(scope, dict):
        return NOTHING
    match scope.get("type"):
        case "organization":
            what = "everything"
        case "glob":
            what = _joined(scope.get("patterns"))
        case "repositories":
            what = _joined(scope.get("repositories"))
        case "branch":
            if not (scope.get("repository") and scope.get("branch")):
                return str(scope.get("branchId") or "a branch")
            return f"{scope['repository']}:{scope['branch']}"
        case other:
            what = str(other)
    branches = scope.get("branches")
    return f"{what} ({_joined(branches)})" if branches else what


def name_of(actor: object) -> str:
    """Return who did something."""
    return str(actor.get("name") or actor.get("type")) if isinstance(actor, dict) else NOTHING


def end_of(one: Json, time: Time) -> str:
    """Return when a freeze ends."""
    return "until lifted" if one.get("endsAt") is None else time(one["endsAt"])


def freezes(body: Json, time: Time) -> list[str]:
    """Return a list of freezes."""
    return table(
        ("ID", "STATE", "ENFORCED", "SCOPE", "REASON", "SINCE", "UNTIL", "BY"),
        [
            (
                one.get("id"),
                one.get("state"),
                enforced(one),
                scope_text(one.get("scope")),
                one.get("reason"),
                time(one.get("startedAt")),
                time(one.get("endedAt")) if one.get("endedAt") else end_of(one, time),
                name_of(one.get("createdBy")),
            )
            for one in rows_of(body)
        ],
    )


def enforced(one: Json) -> str:
    """Return whether GitHub refuses merges into all branches of a freeze in force: yes, in part, by a stop, or no."""
    if one.get("state") != "in_force" or "enforcedAt" not in one:
        return NOTHING
    if not one["enforcedAt"]:
        return "by a stop" if one.get("blockedAt") else "no"
    return "in part" if (one.get("targets") or {}).get("partly") else "yes"


def freeze(one: Json, time: Time) -> Iterator[str]:
    """Yield what a freeze is, whether it is enforced and why not, and how far its checks are."""
    counts = {name: number for name, number in (one.get("targets") or {}).items() if number or name == "total"}
    yield f"{one.get('id')}  {one.get('state')}  {scope_text(one.get('scope'))}"
    if enforced(one) != NOTHING:
        yield f"  enforced  {_enforced_since(one, time)}"
    for gap in rows_of(one, "gaps"):
        number = count(gap.get("branchCount"), "branch", "branches")
        yield f"  gap       {number} {_BLOCKING.get(str(gap.get('state')), gap.get('state'))}: {gap.get('message')}"
    yield f"  reason    {one.get('reason')}"
    yield f"  since     {time(one.get('startedAt'))}"
    if one.get("endedAt"):
        yield f"  ended     {time(one['endedAt'])} ({one.get('endReason')})"
    else:
        yield f"  until     {end_of(one, time)}"
    yield f"  branches  {', '.join(f'{number} {name}' for name, number in counts.items())}"
    yield from _frozen_by_others(one, "alreadyFrozen", "already frozen")
    yield from _frozen_by_others(one, "stillFrozen", "still frozen")


def freeze_targets(body: Json, time: Time) -> list[str]:
    """Return the branches that a freeze covers, and whether GitHub refuses merges into each."""
    rows = []
    for one in rows_of(body):
        blocking, failed = one.get("blocking") or {}, one.get("lastError") or {}
        found = str(blocking.get("state") or NOTHING)
        rows.append(
            (
                f"{one.get('repository')}:{one.get('branch')}",
                one.get("state"),
                _BLOCKING.get(found, found),
                failed.get("message")
                or (blocking.get("message") if found != "blocked" or blocking.get("byStop") else None),
                time(one.get("releasedAt") or one.get("appliedAt")),
            )
        )
    return table(("BRANCH", "CHECKS", "BLOCKED", "WHY", "SINCE"), rows)


def _frozen_by_others(body: Json, name: str, how: str) -> Iterator[str]:
    """Yield by which other freezes how many branches are frozen, if any are."""
    if body.get(f"{name}Count"):
        by = sorted({str(freeze) for one in rows_of(body, name) for freeze in one.get("freezeIds") or ()})
        yield f"{count(body[f'{name}Count'], 'branch is', 'branches are')} {how} by {', '.join(by)}."


_BLOCKING = {
    "blocked": "blocked",
    "partly": "blocked only in part",
    "not_blocked": "not blocked",
    "unknown": "not known to be blocked",
}
"""Words for whether GitHub refuses what a freeze forbids; another value is shown as it is."""


def _enforced_since(one: Json, time: Time) -> str:
    blocked_at = one.get("blockedAt")
    if one["enforcedAt"]:
        first = f" (by a stop since {time(blocked_at)})" if blocked_at and blocked_at != one["enforcedAt"] else ""
        return f"{enforced(one)}, since {time(one['enforcedAt'])}{first}"
    if blocked_at:
        return f"by a stop since {time(blocked_at)}, until all checks are written"
    before = one.get("firstEnforcedAt")
    return f"no; it was from {time(before)}" if before else "no"


def state(body: Json, time: Time) -> Iterator[str]:
    """Yield whether a subject is frozen, by what, and when that changes."""
    name = (body.get("subject") or {}).get("name")
    if body.get("frozen") and body.get("enforced") is False:
        yield "GitHub is not known to refuse merges into all that is frozen; `freeze doctor` says more."
    if not body.get("frozen"):
        yield f"{name} is open."
    elif body.get("coverage") == "all":
        yield f"{name} is frozen."
    else:
        frozen, watched = body.get("frozenBranchCount"), body.get("watchedBranchCount")
        yield f"{name} is frozen in part: {frozen} of {watched} branches."
    if body.get("frozen") and body.get("enforced") is True:
        yield "GitHub refuses merges into all that is frozen."
    if rows_of(body, "freezes"):
        yield from table(
            ("ID", "REASON", "SINCE", "UNTIL"),
            [
                (one.get("id"), one.get("reason"), time(one.get("startedAt")), end_of(one, time))
                for one in rows_of(body, "freezes")
            ],
        )
    if body.get("freezesTruncated"):
        yield "More freezes cover it than are listed."
    frozen_branches = [str(one.get("name")) for one in rows_of(body, "branches") if one.get("frozen")]
    if frozen_branches and body.get("coverage") != "all":
        yield f"Frozen branches: {', '.join(frozen_branches)}"
    if body.get("frozenUntil"):
        yield f"Frozen until: {time(body['frozenUntil'])}"
    if body.get("nextChangeAt"):
        yield f"Next change: {time(body['nextChangeAt'])}"


def impact(body: Json) -> Iterator[str]:
    """Yield what a scope covers; first what a freeze is not known to block there."""
    if body.get("unenforcedBranchCount"):
        number, total = body["unenforcedBranchCount"], count(body.get("branchCount"), "branch", "branches")
        verb = "is" if number == 1 else "are"
        yield f"{number} of {total} {verb} not known to block: `freeze doctor` says why."
    yield (
        f"{count(body.get('branchCount'), 'branch', 'branches')} in "
        f"{count(body.get('repositoryCount'), 'repository', 'repositories')}, "
        f"{count(body.get('openPullRequestCount'), 'open pull request', 'open pull requests')}"
    )
    if body.get("frozenBranchCount"):
        yield f"{count(body['frozenBranchCount'], 'branch is', 'branches are')} frozen already."


def covered(body: Json) -> Iterator[str]:
    """Yield what a scope covers, branch by branch."""
    yield from impact(body)
    yield from table(
        ("REPOSITORY", "BRANCHES"),
        [
            (
                one.get("fullName"),
                ", ".join(
                    f"{branch.get('name')}{' (frozen)' if branch.get('frozen') else ''}"
                    for branch in rows_of(one, "branches")
                ),
            )
            for one in rows_of(body, "repositories")
        ],
    )
    if body.get("truncated"):
        yield "More repositories are covered than are listed."


def lifted(body: Json) -> Iterator[str]:
    """Yield what was lifted, and what is still frozen."""
    for one in rows_of(body):
        yield f"Lifted {one.get('id')} ({scope_text(one.get('scope'))})"
    yield from _frozen_by_others(body, "stillFrozen", "still frozen")


def pull_request(body: Json, time: Time) -> Iterator[str]:
    """Yield why a pull request may merge or not."""
    blocking = body.get("blocking") or {}
    found = str(blocking.get("state") or body.get("verdict"))
    forbidden = "a freeze forbids it, and it is " if blocking and found != "blocked" else ""
    yield (
        f"{body.get('repository')}#{body.get('number')} into {body.get('baseBranch')}: "
        f"{forbidden}{_BLOCKING.get(found, found)}"
    )
    if blocking and (found != "blocked" or blocking.get("bypassActorCount") != 0 or blocking.get("byStop")):
        yield f"  {blocking.get('message')}"
    yield f"  {body.get('title')} ({body.get('author')}, {body.get('state')})"
    check = body.get("check") or {}
    yield f"  check {check.get('name')}: {check.get('conclusion')} ({check.get('state')})"
    if rows_of(body, "freezes"):
        yield from table(
            ("FREEZE", "REASON", "SINCE", "UNTIL", "EXCEPTION"),
            [
                (
                    one.get("id"),
                    one.get("reason"),
                    time(one.get("startedAt")),
                    end_of(one, time),
                    one.get("exceptionId") or ("possible" if one.get("exceptionsAllowed") else "not allowed"),
                )
                for one in rows_of(body, "freezes")
            ],
        )
    for one in rows_of(body, "exceptions"):
        yield f"  exception {one.get('id')}: {one.get('state')}, {one.get('reason')}"
    if body.get("frozenUntil"):
        yield f"Frozen until: {time(body['frozenUntil'])}"
    if body.get("nextChangeAt"):
        yield f"Next change: {time(body['nextChangeAt'])}"


def exceptions(body: Json, time: Time) -> list[str]:
    """Return a list of exceptions or requests."""
    rows = []
    for one in rows_of(body):
        pull = one.get("pullRequest") or {}
        rows.append(
            (
                one.get("id"),
                one.get("state"),
                f"{pull.get('repository')}#{pull.get('number')}",
                one.get("branch"),
                one.get("reason"),
                name_of(one.get("requestedBy") or one.get("decidedBy")),
                time(one.get("requestedAt") or one.get("decidedAt")),
            )
        )
    return table(("ID", "STATE", "PULL REQUEST", "BRANCH", "REASON", "BY", "SINCE"), rows)


def schedules(body: Json, time: Time) -> list[str]:
    """Return a list of schedules."""
    rows = []
    for one in rows_of(body):
        coming = one.get("nextOccurrence") or {}
        enabled = "on" if one.get("enabled") else "off"
        starts, finishes = time(coming.get("startsAt")), time(coming.get("endsAt"))
        scope = scope_text(one.get("scope"))
        rows.append((one.get("id"), one.get("name"), enabled, scope, one.get("timezone"), starts, finishes))
    return table(("ID", "NAME", "ON", "SCOPE", "ZONE", "NEXT START", "NEXT END"), rows)


def schedule(one: Json, time: Time) -> Iterator[str]:
    """Yield what a schedule is."""
    yield f"{one.get('id')}  {one.get('name')}  {'on' if one.get('enabled') else 'off'}"
    yield f"  scope       {scope_text(one.get('scope'))}"
    yield f"  reason      {one.get('reason')}"
    yield f"  zone        {one.get('timezone')}"
    yield f"  window      {_pairs(one.get('window'))}"
    yield f"  recurrence  {_pairs(one.get('recurrence'))}"
    coming = one.get("nextOccurrence")
    if coming:
        yield f"  next        {time(coming.get('startsAt'))} to {time(coming.get('endsAt'))} ({coming.get('state')})"
    active = one.get("activeFreeze")
    if active:
        yield f"  in force    {active.get('id')}, {'until ' if active.get('endsAt') else ''}{end_of(active, time)}"


def occurrences(body: Json, time: Time) -> list[str]:
    """Return a list of windows of schedules."""
    rows = [
        (
            one.get("id"),
            one.get("state"),
            time(one.get("startsAt")),
            time(one.get("endsAt")),
            one.get("scheduleId"),
            one.get("freezeId"),
        )
        for one in rows_of(body)
    ]
    return table(("ID", "STATE", "START", "END", "SCHEDULE", "FREEZE"), rows)


def audit(body: Json, time: Time) -> list[str]:
    """Return a list of audit entries."""
    rows = []
    for one in rows_of(body):
        target = one.get("target") or {}
        about = target.get("name") or target.get("id")
        rows.append((time(one.get("at")), one.get("action"), name_of(one.get("actor")), one.get("source"), about))
    return table(("AT", "ACTION", "ACTOR", "SOURCE", "TARGET"), rows)


def _joined(values: object) -> str:
    return ", ".join(map(str, values)) if isinstance(values, list) else NOTHING


def _pairs(values: object) -> str:
    if not isinstance(values, dict):
        return NOTHING
    shown = ((name, _joined(value) if isinstance(value, list) else value) for name, value in values.items())
    return ", ".join(f"{name} {value}" for name, value in shown if value not in (None, ""))
