"""The form of a rule of exceptions: what it sends becomes a rule, and a rule fills it in, if the form can show it.

The form has grounds, of which one or all are needed, and what narrows them. A rule can say more, by the API.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from web.dashboard.scopes import FIELD_OF_SCOPE, SCOPE_LABELS, scope_fields_of, scope_of
from web.fields import split_list, to_number
from web.operations import OperationError

LABELS = {
    **SCOPE_LABELS,
    "scope": "Where it applies",
    "name": "Name",
    "reason": "Reason",
    "freezes": "Freezes",
    "schedules": "Schedules",
    "grounds": "What it lets in",
    "files": "Files",
    "label": "Label",
    "label_by": "Who sets the label",
    "accounts": "Authors",
    "approvals": "Approvals",
    "never": "Files that are never changed",
    "max_lines": "Changed lines",
    "per_freeze": "Pull requests in each freeze",
}
"""Labels of the fields by their names."""
FIELDS = (*LABELS, "same_repository")
NEW = {"scope": "organization", "freezes": "all", "grounds": "any"}
"""What an empty form shows."""
FREEZES = {"all": "All", "manual": "Those that people start", "schedules": "Those of some schedules"}
GROUNDS = {"any": "what meets one of these", "all": "what meets all of these"}
EDITED = ("name", "reason", "appliesTo", "allow", "limits")
"""Properties of a rule that the form shows."""
_FIELD_OF_CONDITION = {
    "paths": "files",
    "label": "label",
    "author": "accounts",
    "approvals": "approvals",
    "changedLines": "max_lines",
}

Given = Mapping[str, str]
"""The fields of the form."""
Rule = Mapping[str, Any]
"""A rule as the contract has it."""


def body_of(given: Given, present: Rule | None = None) -> dict[str, Any]:
    """Return the rule that a form describes; what is no number is left to the operation to refuse.

    What means the same in the present rule is as it is there.
    """
    freezes = given["freezes"] or "all"
    chosen = {"scheduleIds": given["schedules"].split()} if freezes == "schedules" and given["schedules"] else {}
    body: dict[str, Any] = {
        "name": given["name"],
        "reason": "\n".join(given["reason"].splitlines()),
        "appliesTo": {"scope": scope_of(given), "freezes": freezes, **chosen},
        "allow": _allow_of(given),
        "limits": {"perFreeze": to_number(given["per_freeze"]) if given["per_freeze"] else None},
    }
    if present is not None:
        body |= {name: present[name] for name in EDITED if _mark(name, body) == _mark(name, present)}
    return body


def values_of(rule: Rule) -> dict[str, str] | None:
    """Return what the form shows of a rule; None if it cannot show it."""
    applies_to, allow = rule["appliesTo"], rule["allow"]
    values = dict.fromkeys(FIELDS, "") | {
        "name": rule["name"],
        "reason": rule["reason"],
        **scope_fields_of(applies_to["scope"]),
        "freezes": applies_to["freezes"],
        "schedules": "\n".join(applies_to.get("scheduleIds", ())),
        "grounds": "any" if _has_alternatives(allow) else "all",
        "per_freeze": str(rule["limits"]["perFreeze"] or ""),
    }
    for condition in _conditions(allow):
        _fill_in(values, condition)
    body = body_of(values)
    return values if all(_mark(name, body) == _mark(name, rule) for name in EDITED) else None


def at_fields(error: OperationError, body: Rule) -> OperationError:
    """Return a refusal whose details name the fields of the form."""
    return error.with_details([type(each)(f"/{_field(each.path, body)}", each.message) for each in error.details])


def _allow_of(given: Given) -> dict[str, Any]:
    """Return the conditions: grounds, of which one or all are needed, and all that narrows them."""
    grounds = list(_grounds_of(given))
    narrowing: list[dict[str, Any]] = []
    if never := split_list(given["never"]):
        narrowing.append({"paths": {"noneMatching": never}})
    if given["max_lines"]:
        narrowing.append({"changedLines": {"atMost": to_number(given["max_lines"])}})
    if given["same_repository"]:
        narrowing.append({"head": {"sameRepository": True}})
    either = [{"any": grounds}] if given["grounds"] != "all" and len(grounds) > 1 else grounds
    return {"all": [*either, *narrowing]}


def _grounds_of(given: Given) -> Iterator[dict[str, Any]]:
    if files := split_list(given["files"]):
        yield {"paths": {"onlyMatching": files}}
    if given["label"] or given["label_by"]:
        yield {"label": {"name": given["label"], "setBy": _people(given["label_by"])}}
    if accounts := _people(given["accounts"]):
        yield {"author": accounts}
    for line in filter(None, map(str.strip, given["approvals"].splitlines())):
        team, _, number = line.partition(":")
        yield {"approvals": {"fromTeam": team.strip().removeprefix("@"), "atLeast": to_number(number.strip() or "1")}}


def _people(text: str) -> dict[str, list[str]]:
    """Return accounts and teams (`organisation/team`, with or without @) that a text lists."""
    names = [name.removeprefix("@") for name in split_list(text)]
    people = {"accounts": [name for name in names if "/" not in name], "teams": [name for name in names if "/" in name]}
    return {kind: found for kind, found in people.items() if found}


def _fill_in(values: dict[str, str], condition: Mapping[str, Any]) -> None:
    """Put a condition into its field. Another one of the same kind takes its place, but for approvals."""
    ((kind, value),) = condition.items()
    if kind == "paths":
        named = {"files": value.get("onlyMatching"), "never": value.get("noneMatching")}
        values |= {name: "\n".join(globs) for name, globs in named.items() if globs}
    elif kind == "label":
        values |= {"label": value["name"], "label_by": _names(value["setBy"])}
    elif kind == "author":
        values["accounts"] = _names(value)
    elif kind == "approvals":
        values["approvals"] = f"{values['approvals']}\n{value['fromTeam']}: {value['atLeast']}".strip()
    elif kind == "changedLines":
        values["max_lines"] = str(value["atMost"])
    elif kind == "head":
        values["same_repository"] = "on"


def _names(people: Mapping[str, Any]) -> str:
    return ", ".join((*people.get("teams", ()), *people.get("accounts", ())))


def _members(allow: Mapping[str, Any]) -> list[Any]:
    return next((allow[key] for key in ("all", "any") if key in allow), [])


def _conditions(allow: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the conditions of a rule, in their order."""
    for member in _members(allow):
        if _members(member):
            yield from _conditions(member)
        else:
            yield member


def _has_alternatives(allow: Mapping[str, Any]) -> bool:
    members = _members(allow)
    return ("any" in allow and len(members) > 1) or any(map(_has_alternatives, members))


def _mark(name: str, rule: Rule) -> str:
    """Return a mark of what a property of a rule means."""
    if name == "allow":
        return _meaning(rule[name])
    return _range_mark(rule[name]) if name == "appliesTo" else _text(rule[name])


def _text(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _range_mark(applies_to: Mapping[str, Any]) -> str:
    """Return a mark of a range; a branch is named by its repository and name, or by its id."""
    scope = applies_to["scope"]
    named = scope["type"] == "branch" and scope.get("repository")
    return _text({**applies_to, "scope": {**scope, "branchId": None} if named else scope})


def _meaning(member: Mapping[str, Any]) -> str:
    """Return a mark of what conditions mean: their order does not count, nor a group in which there is but one."""
    kind, parts = _parts(member)
    return parts[0] if len(parts) == 1 else f"{kind}({','.join(sorted(parts))})"


def _parts(member: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return how the parts of a member are joined, and the mark of each; a group in one of its kind is part of it."""
    kind = "any" if "any" in member else "all"
    if paths := member.get("paths"):
        return kind, [_text({"paths": {name: globs}}) for name, globs in paths.items()]
    if not _members(member):
        return kind, [_text(member)]
    inner = [(_parts(each), _meaning(each)) for each in _members(member)]
    return kind, [
        mark
        for (its_kind, its_parts), meaning in inner
        for mark in (its_parts if its_kind == kind or len(its_parts) == 1 else [meaning])
    ]


def _field(path: str, body: Rule) -> str:
    """Return the field of the form that a pointer into the rule is about."""
    parts = path.strip("/").split("/")
    if parts[0] == "appliesTo":
        return _field_of_range(parts[1:], body["appliesTo"]["scope"]["type"])
    if parts[0] == "limits":
        return "per_freeze"
    if parts[0] != "allow":
        return parts[0]
    place: Any = body["allow"]
    for part in parts[1:]:
        place = place[int(part)] if isinstance(place, list) and part.isdecimal() else place.get(part, {})
        if isinstance(place, dict) and (kind := next(iter(place.keys() & _FIELD_OF_CONDITION.keys()), None)):
            if kind == "paths" and "onlyMatching" not in place[kind]:
                return "never"
            return "label_by" if "setBy" in parts else _FIELD_OF_CONDITION[kind]
    return "files"


def _field_of_range(parts: list[str], kind: str) -> str:
    own = {"freezes": "freezes", "scheduleIds": "schedules"}.get(next(iter(parts), ""))
    named = (part for part in parts if part in SCOPE_LABELS and part != "scope")
    return own or next(named, None) or FIELD_OF_SCOPE.get(kind, "scope")
