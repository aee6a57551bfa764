"""The Helm chart makes what the files for Kubernetes have, and its values change it."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from rules.version import VERSION

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm" / "change-freeze"
HOOKS = {"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-delete-policy": "before-hook-creation"}
Objects = dict[tuple[str, str], dict[str, Any]]


def objects_of(text: str) -> Objects:
    """Return the objects of a text, by kind and name."""
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text) if each}


def run(*arguments: str | Path) -> str:
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("helm is not on this machine (Debian has no package of it)")
    done = subprocess.run([helm, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rendered(*arguments: str) -> Objects:
    """Return what the chart makes."""
    return objects_of(run("template", "change-freeze", CHART, *arguments))


def test_chart_has_no_mistake() -> None:
    run("lint", "--strict", CHART)


def test_chart_makes_what_the_files_for_kubernetes_have() -> None:
    files = (DEPLOY / "kubernetes" / name for name in ("migrate.yaml", "change-freeze.yaml"))
    wanted = objects_of("---\n".join(file.read_text() for file in files))
    made = rendered()
    assert made.pop(("Job", "change-freeze-migrate")) == _with_hooks(wanted.pop(("Job", "change-freeze-migrate")))
    assert made == wanted


def _with_hooks(job: dict[str, Any]) -> dict[str, Any]:
    return {**job, "metadata": {**job["metadata"], "annotations": HOOKS}}


def test_values_change_what_the_chart_makes() -> None:
    values = {
        "image.repository": "registry.example/freeze",
        "worker.replicas": "5",
        "api.processes": "4",
        "ingress.host": "freeze.acme.example",
        "networkPolicies.enabled": "false",
        "secrets.environment": "mine",
    }
    made = rendered(*(f"--set={name}={value}" for name, value in values.items()))
    worker = made["Deployment", "change-freeze-worker"]["spec"]
    api = made["Deployment", "change-freeze-api"]["spec"]["template"]["spec"]["containers"][0]
    assert worker["replicas"] == 5
    assert api["image"] == f"registry.example/freeze:{VERSION}"
    assert {"name": "WEB_CONCURRENCY", "value": "4"} in api["env"]
    assert api["envFrom"] == [{"secretRef": {"name": "mine"}}]
    assert made["Ingress", "change-freeze"]["spec"]["rules"][0]["host"] == "freeze.acme.example"
    assert "NetworkPolicy" not in {kind for kind, _ in made}
    assert ("Ingress", "change-freeze") not in rendered("--set", "ingress.enabled=false")


def test_release_of_another_name_has_objects_and_labels_of_its_own() -> None:
    made = objects_of(run("template", "canary", CHART))
    assert all(name.startswith("canary") for _, name in made)
    assert "change-freeze" not in {
        each["metadata"].get("labels", {}).get("app.kubernetes.io/name") for each in made.values()
    }
