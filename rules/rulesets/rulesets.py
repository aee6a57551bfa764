"""The rulesets that make GitHub require our checks: their patterns, their JSON, and what they require.

A `ref_name` pattern is matched with Ruby's `File.fnmatch` and `FNM_PATHNAME`: `*` stays within a path segment, and
only a whole segment `**/` crosses slashes, so that a `**` of ours can take more than one pattern.
https://docs.github.com/en/repositories/configuring-branches-and-merges-in-your-repository/managing-rulesets
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from rules.errors import ServiceError
from rules.freezes.check_names import PREFIX
from rules.freezes.globs import compile_globs
from rules.rulesets.overlaps import overlap

MAX_PATTERNS = 64
"""The most `ref_name` patterns that one of ours may expand to; each `**` within a segment doubles them."""

RULE_TYPE = "required_status_checks"
DELETION = "deletion"

_HEADS = "refs/heads/"
_SPECIAL = re.compile(r"[\[?\\]")
_ESCAPED = {"[": "[[]", "?": "[?]", "\\": r"[\\]"}


def pattern_of(check_name: str) -> str:
    """Return the branch name or glob of a check name; raise ValueError for a name that is not ours."""
    if not check_name.startswith(PREFIX):
        raise ValueError(f"{check_name!r} does not begin with {PREFIX!r}")
    return check_name.removeprefix(PREFIX)


def ruleset_name(pattern: str) -> str:
    """Return the name of the ruleset that requires the check of a pattern; unique within its repository or owner."""
    return f"Change freeze: {pattern}"


def ref_of(branch: str) -> str:
    """Return the `ref_name` pattern that matches only one branch, whose name has no `*` (git-check-ref-format)."""
    return _HEADS + _escaped(branch)


def ref_patterns(pattern: str) -> list[str]:
    """Return the `ref_name` patterns that together match exactly the branches that one of our patterns matches.

    `pattern` is a branch name or a branch glob without `!`. No branch has an empty path segment (git-check-ref-format).
    Raise `invalid_glob` if there are more than `MAX_PATTERNS`.
    """
    segments = pattern.split("/")
    alternatives = [_choices(segment, last=index == len(segments) - 1) for index, segment in enumerate(segments)]
    if prod(len(choices) for parts in alternatives for choices in parts) > MAX_PATTERNS:
        advice = "write segments of their own, as in a/**/b"
        raise ServiceError("invalid_glob", f"{pattern!r} has too many ** within path segments; {advice}.")
    spelled = [["".join(parts) for parts in product(*choices)] for choices in alternatives]
    return [_HEADS + "/".join(parts) for parts in product(*spelled)]


def _choices(segment: str, *, last: bool) -> list[list[str]]:
    """Return the alternatives for each part of a segment: its literals, and every meaning of a `**`."""
    literals = segment.split("**")
    choices = [[_escaped(literals[0])]]
    for index, literal in enumerate(literals[1:], start=1):
        if index == 1 and not literals[0]:
            crossing = ["**/*"]
        elif index == len(literals) - 1 and not literal and not last:
            crossing = ["*/**"]
        else:
            crossing = ["*", "*/**/*"]
        choices += [crossing, [_escaped(literal)]]
    return choices


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: _ESCAPED[found[0]], text)


def excluded_patterns(pattern: str, globs: Sequence[str], check_names: Mapping[str, str]) -> list[str]:
    """Return the patterns that the rule of `pattern` must exclude, because its check is not written on their branches.

    `globs` are those that a repository's check names are made of, in their order; `check_names` are those of all its
    branches, by branch. A branch has the name of the first glob that matches it, unless it had another one before, and
    none when a later `!` glob excludes it. No pattern is returned that would exclude a branch whose check this is.
    """
    if "*" not in pattern:
        return []
    at = globs.index(pattern) if pattern in globs else len(globs)
    earlier = [glob for glob in globs[:at] if not glob.startswith("!")]
    excluded = [glob.removeprefix("!") for glob in globs[at:] if glob.startswith("!")]
    own = [branch for branch, name in check_names.items() if name == PREFIX + pattern]
    found = {glob for glob in (*earlier, *excluded) if overlap(pattern, glob) and not any(_matching(glob, own))}
    others = [branch for branch, name in check_names.items() if name != PREFIX + pattern]
    return sorted(found.union(_matching(pattern, others)))


def _matching(glob: str, branches: Iterable[str]) -> Iterator[str]:
    matches = compile_globs([glob], "branch", "").matches
    return (branch for branch in branches if matches(branch))


def desired_ruleset(
    check_name: str,
    app_id: int,
    repository_ids: Sequence[int] | None = None,
    exclude: Iterable[str] = (),
    *,
    forbids_deletion: bool = False,
) -> dict[str, Any]:
    """Return GitHub's JSON of the ruleset that requires a check, pinned to our App.

    `repository_ids` are GitHub's ids of the repositories of an organisation's ruleset; None makes a repository's.
    `exclude` are patterns of ours whose branches the rule excludes, because their checks have other names or are not
    written. `forbids_deletion` adds a rule against deleting the branches. Raise `invalid_glob` as `ref_patterns` does.
    """
    pattern = pattern_of(check_name)
    excluded = [name for other in exclude for name in ref_patterns(other)]
    conditions: dict[str, Any] = {"ref_name": {"include": ref_patterns(pattern), "exclude": excluded}}
    if repository_ids is not None:
        conditions["repository_id"] = {"repository_ids": sorted(set(repository_ids))}
    return {
        "name": ruleset_name(pattern),
        "target": "branch",
        "enforcement": "active",
        "bypass_actors": [],
        "conditions": conditions,
        "rules": [_rule(check_name, app_id), *([{"type": DELETION}] if forbids_deletion else ())],
    }


def _rule(check_name: str, app_id: int) -> dict[str, Any]:
    parameters = {
        "strict_required_status_checks_policy": False,
        "do_not_enforce_on_create": True,
        "required_status_checks": [{"context": check_name, "integration_id": app_id}],
    }
    return {"type": RULE_TYPE, "parameters": parameters}


def required_integrations(rule: Mapping[str, Any], check_name: str) -> list[int | None]:
    """Return, for each time that a rule requires the check, the App that must write it; None for any.

    `rule` is `{type, parameters}` as the REST API spells it. Empty if it does not require the check.
    """
    if rule.get("type") != RULE_TYPE:
        return []
    checks = (rule.get("parameters") or {}).get("required_status_checks") or []
    return [check.get("integration_id") for check in checks if check.get("context") == check_name]


def requires(rule: Mapping[str, Any], check_name: str) -> bool:
    """True if a rule requires the check, from any App."""
    return bool(required_integrations(rule, check_name))


def requires_from(rule: Mapping[str, Any], check_name: str, app_id: int) -> bool:
    """True if a rule requires the check from our App."""
    return app_id in required_integrations(rule, check_name)
