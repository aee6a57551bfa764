"""Rules of exceptions as text: a table of them, and one with its conditions in words."""

from collections.abc import Callable, Iterator, Mapping

from change_freeze_cli.text import count, plain, table
from change_freeze_cli.views import Json, Time, name_of, rows_of, scope_text

_TOGETHER = {"all": "all of", "any": "one of"}
_FREEZES = {"all": "every freeze", "manual": "freezes that people start"}


def rules(body: Json, time: Time) -> list[str]:
    """Return a list of rules."""
    rows = []
    for one in rows_of(body):
        applies_to = one.get("appliesTo") or {}
        enabled, scope = "on" if one.get("enabled") else "off", scope_text(applies_to.get("scope"))
        rows.append((one.get("id"), one.get("name"), enabled, scope, one.get("uses"), time(one.get("lastUsedAt"))))
    return table(("ID", "NAME", "ON", "SCOPE", "USES", "LAST USE"), rows)


def rule(one: Json, time: Time) -> Iterator[str]:
    """Yield what a rule is, its conditions in words."""
    applies_to, limits = one.get("appliesTo") or {}, one.get("limits") or {}
    yield f"{one.get('id')}  {one.get('name')}  {'on' if one.get('enabled') else 'off'}"
    yield f"  scope    {scope_text(applies_to.get('scope'))}"
    yield f"  freezes  {_freezes(applies_to)}"
    yield f"  reason   {one.get('reason')}"
    if limits.get("perFreeze") is not None:
        yield f"  limit    {count(limits['perFreeze'], 'pull request', 'pull requests')} for each freeze"
    yield f"  used     {_use(one, time)}"
    yield f"  by       {name_of(one.get('createdBy'))}, changed {time(one.get('updatedAt'))}"
    yield from _group(one.get("allow") or {}, "  lets in  what meets ", "    ")


def preview(body: Json) -> Iterator[str]:
    """Yield how many pull requests a rule would let in, which ones, and what the others miss."""
    judged = rows_of({"data": body.get("pullRequests")})
    yield f"{body.get('letInCount')} of {body.get('judgedCount')} open pull requests would be let in."
    if body.get("openPullRequestCount") != body.get("judgedCount"):
        yield f"{body.get('openPullRequestCount')} are open; those closest to being merged were looked at."
    yield from table(("PULL REQUEST", "LET IN", "BECAUSE"), [_judged(one) for one in judged])


def _judged(one: Json) -> tuple[str, str, str]:
    pull, conditions = one.get("pullRequest") or {}, one.get("conditions") or []
    missed = [f"{each.get('requires')}: {each.get('found')}" for each in conditions if each.get("outcome") == "missed"]
    met = [str(each.get("requires")) for each in conditions if each.get("outcome") == "met"]
    is_met = one.get("outcome") == "met"
    why = one.get("unknown") or "; ".join(met if is_met else missed)
    return f"{pull.get('repository')}#{pull.get('number')}", "yes" if is_met else "no", str(why)


def _freezes(applies_to: Json) -> str:
    chosen = str(applies_to.get("freezes"))
    if chosen == "schedules":
        return f"those of {_either(applies_to.get('scheduleIds'))}"
    return _FREEZES.get(chosen, chosen)


def _use(one: Json, time: Time) -> str:
    uses = f"by {count(one.get('uses'), 'pull request', 'pull requests')}"
    return f"{uses}, last {time(one['lastUsedAt'])}" if one.get("lastUsedAt") else uses


def _group(group: Json, start: str, indent: str) -> Iterator[str]:
    """Yield the conditions of a group, a line for each; a group inside is indented."""
    for kind, words in _TOGETHER.items():
        if kind in group:
            yield f"{start}{words}:"
            for member in group[kind]:
                if _TOGETHER.keys() & member.keys():
                    yield from _group(member, f"{indent}- ", f"{indent}  ")
                else:
                    yield f"{indent}- {_condition(member)}"


def _condition(given: Json) -> str:
    """Return a condition in words; one that this version does not know is shown as the API has it."""
    ((kind, value),) = given.items()
    words = _WORDS.get(kind)
    return plain(given) if words is None else words(value)


def _paths(paths: Json) -> str:
    only, none = paths.get("onlyMatching"), paths.get("noneMatching")
    parts = [f"only files that match {_either(only)}"] if only else []
    return " and ".join([*parts, *([f"no file that matches {_either(none)}"] if none else [])])


def _people(people: Json) -> str:
    return _either([*(f"@{team}" for team in people.get("teams", ())), *people.get("accounts", ())])


def _either(values: object) -> str:
    return " or ".join(map(plain, values)) if isinstance(values, list) else "-"


_WORDS: Mapping[str, Callable[[Json], str]] = {
    "paths": _paths,
    "label": lambda label: f"the label {plain(label.get('name'))} set by {_people(label.get('setBy') or {})}",
    "author": lambda people: f"{_people(people)} as author, and as verified signer of every commit",
    "approvals": lambda wanted: (
        f"{count(wanted.get('atLeast'), 'approval', 'approvals')} from @{plain(wanted.get('fromTeam'))}"
    ),
    "head": lambda _head: "a head in the repository itself",
    "changedLines": lambda size: f"at most {count(size.get('atMost'), 'changed line', 'changed lines')}",
}
