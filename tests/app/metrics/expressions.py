"""The expressions of the alert rules and of the dashboard, and what they name: a reader of ours, of what they use."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[3] / "deploy"
RULES = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "change-freeze.json"
OF_TARGETS = {"job", "instance"}
"""Labels that Prometheus adds to all metrics of a target."""
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_METRIC = re.compile(r"\b(change_freeze_\w+|process_\w+|up)\b(\{[^}]*\})?")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")
_SUFFIXES = re.compile(r"_(?:bucket|sum|count)$")


def rules() -> list[dict[str, Any]]:
    """Return the alert rules."""
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    """Return the panels of the dashboard, without the titles of rows."""
    every = json.loads(DASHBOARD.read_text())["panels"]
    return [panel for panel in every if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    """Yield each expression, with the name of what has it."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def metrics_of(expression: str) -> dict[str, set[str]]:
    """Return the samples that an expression names, each with the labels that it must have.

    A grouping is about the metrics of its own aggregation: our expressions that divide group both sides alike.
    """
    plain = _TEXT.sub('""', expression)
    grouped = {label.strip() for labels in _GROUPING.findall(plain) for label in labels.split(",") if label.strip()}
    found = dict[str, set[str]]()
    for name, matchers in _METRIC.findall(plain):
        matched = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
        found.setdefault(name, set()).update((grouped | matched) - OF_TARGETS - {"le"})
    return found


def family_of(sample: str) -> str:
    """Return the family of a sample of a histogram, or the sample itself."""
    return _SUFFIXES.sub("", sample)
