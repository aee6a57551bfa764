"""Alert rules, the dashboard and the documentation of metrics agree; `test_scrapes.py` compares them with processes."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from app.metrics.families import FAMILIES, table
from tests.app.metrics.expressions import (
    DASHBOARD,
    RULES,
    expressions,
    family_of,
    metrics_of,
    panels,
    rules,
)

PAGE = Path(__file__).parents[2] / "docs" / "operations" / "monitoring.md"
ALERT_TESTS = Path(__file__).with_name("alert_tests.yml")


def test_page_has_the_table_of_metrics() -> None:
    assert table() in PAGE.read_text()


def test_page_says_what_to_do_for_each_alert() -> None:
    _, *sections = re.split(r"^### ", PAGE.read_text(), flags=re.MULTILINE)
    said = {name.strip(): advice for name, _, advice in (section.partition("\n") for section in sections)}
    assert sorted(said) == sorted(rule["alert"] for rule in rules())
    assert min(len(advice) for advice in said.values()) > 60


def test_alert_names_what_is_wrong_and_where_to_read_on() -> None:
    for rule in rules():
        notes, name = rule["annotations"], rule["alert"]
        assert notes.keys() == {"summary", "description", "runbook_url"}, name
        assert notes["runbook_url"] == f"docs/operations/monitoring.md#{name.lower()}"
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert re.fullmatch(r"\d+[mh]", rule["for"])
        used = set(re.findall(r"\$labels\.(\w+)", json.dumps(notes)))
        grouped = {
            label for labels in re.findall(r"by \(([^)]*)\)", rule["expr"]) for label in re.split(r",\s*", labels)
        }
        assert used <= grouped or "by (" not in rule["expr"], name


def test_every_metric_is_used_by_a_rule_or_the_dashboard() -> None:
    used = {family_of(name) for _, expression in expressions() for name in metrics_of(expression)}
    assert {family.full_name for family in FAMILIES} - used == set()


def test_dashboard_has_the_structure_of_grafana() -> None:
    document = json.loads(DASHBOARD.read_text())
    assert document["uid"] == "change-freeze"
    assert document["schemaVersion"] >= 36
    [variable] = document["templating"]["list"]
    assert (variable["name"], variable["type"]) == ("datasource", "datasource")
    every = document["panels"]
    assert len({panel["id"] for panel in every}) == len(every)
    for panel in panels():
        assert panel["type"] in {"timeseries", "stat"}
        assert panel["datasource"]["uid"] == "${datasource}"
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    places = [panel["gridPos"] for panel in every]
    taken = [
        (x, y) for at in places for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(taken)) == len(taken), "panels overlap"
    assert max(x for x, _ in taken) < 24


@pytest.mark.parametrize(
    "arguments",
    [["check", "rules", RULES], ["check", "config", RULES.with_name("prometheus.yml")], ["test", "rules", ALERT_TESTS]],
    ids=["rules", "configuration", "alerts that series lead to"],
)
def test_prometheus_accepts_what_is_shipped(arguments: list[str | Path]) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on this machine (Debian: apt-get install prometheus)")
    run = subprocess.run([promtool, *arguments], cwd=ALERT_TESTS.parent, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
