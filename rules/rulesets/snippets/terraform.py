"""Terraform (or OpenTofu) with the provider integrations/github, version 6.6 or newer.

https://registry.terraform.io/providers/integrations/github/latest/docs/resources/repository_ruleset
"""

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from rules.rulesets.snippets.place import ENFORCEMENT, SWITCHES, PlacedRuleset, Purpose, Snippet, title
from rules.rulesets.snippets.quoting import hcl_string

_NOT_IN_LABELS = re.compile(r"[^a-z0-9]+")


def snippets(place: PlacedRuleset) -> list[Snippet]:
    """Return the resource, and the same resource switched off and on again."""
    means = f"with Terraform, provider integrations/github, owner {place.owner}"
    kinds: tuple[Purpose, ...] = ("enable", *SWITCHES)
    return [
        Snippet("terraform", place.level, purpose, "hcl", title(place, purpose, means), _resource(place, purpose))
        for purpose in kinds
    ]


def label(place: PlacedRuleset) -> str:
    """Return the resource's label; others of the same owner get others, since what it leaves out is in its digest."""
    rule = place.ruleset["name"]
    said = rule if place.level == "organization" else f"{rule} {place.repository}"
    readable = _NOT_IN_LABELS.sub("_", said.lower()).strip("_")[:60]
    return f"{readable}_{sha256(said.encode()).hexdigest()[:6]}"


def _resource(place: PlacedRuleset, purpose: Purpose) -> str:
    kind = f"github_{place.level}_ruleset"
    attributes: list[tuple[str, Any]] = [("name", place.ruleset["name"])]
    if place.level == "repository":
        attributes.append(("repository", place.repository))
    attributes += [("target", place.ruleset["target"]), ("enforcement", ENFORCEMENT[purpose])]
    lines = [
        *_imported(place, kind),
        f'resource "{kind}" "{label(place)}" {{',
        *_indented([*_attributes(attributes), "", *_conditions(place), "", *_rules(place)]),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _imported(place: PlacedRuleset, kind: str) -> list[str]:
    """Say how a ruleset that is there already comes under Terraform."""
    name = "RULESET_ID" if place.level == "organization" else f"{place.repository}:RULESET_ID"
    return [f"# If the ruleset is there already: terraform import {kind}.{label(place)} {name}"]


def _conditions(place: PlacedRuleset) -> list[str]:
    conditions = place.ruleset["conditions"]
    names = conditions["ref_name"]
    lines = _block("ref_name", _attributes([("include", names["include"]), ("exclude", names["exclude"])]))
    if "repository_id" in conditions:
        lines = [*_attributes([("repository_id", conditions["repository_id"]["repository_ids"])]), "", *lines]
    return _block("conditions", lines)


def _rules(place: PlacedRuleset) -> list[str]:
    lines: list[str] = []
    for rule in place.ruleset["rules"]:
        parameters = dict(rule["parameters"])
        checks = parameters.pop("required_status_checks")
        inner = _attributes(sorted(parameters.items()))
        for check in checks:
            inner += ["", *_block("required_check", _attributes(list(check.items())))]
        lines += _block(rule["type"], inner)
    return _block("rules", lines)


def _block(name: str, lines: Sequence[str]) -> list[str]:
    return [f"{name} {{", *_indented(lines), "}"]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" if line else "" for line in lines]


def _attributes(attributes: Sequence[tuple[str, Any]]) -> list[str]:
    """Return one line for each, with the signs of equality below each other, as `terraform fmt` has it."""
    width = max(len(name) for name, _value in attributes)
    return [f"{name:{width}} = {_value(value)}" for name, value in attributes]


def _value(value: Any) -> str:
    if isinstance(value, str):
        return hcl_string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return str(value)
