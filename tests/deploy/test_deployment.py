"""What is shipped for running the service: the image, its processes, and their environment."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.__main__ import COMMANDS
from app.config import Config, load_config
from rules.version import VERSION

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
NAMES = {command.name for command in COMMANDS}
VARIABLES = {name.upper() for name in Config.__dataclass_fields__} | {
    "BIND",
    "DATABASE_OWNER_URL",
    "FORWARDED_ALLOW_IPS",
    "PORT",
    "WEB_CONCURRENCY",
}
UNITS = sorted(path.name for path in (DEPLOY / "systemd").iterdir())


def copied() -> list[str]:
    """Return the files and packages of the service that the image holds."""
    lines = re.findall(r"^COPY (?!--)(.+) \S+$", (ROOT / "Containerfile").read_text(), re.MULTILINE)
    return [name for line in lines for name in line.split()]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with what the image copies, without compiled modules."""
    directory = tmp_path_factory.mktemp("image")
    for name in copied():
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, directory / name)
    return directory


@pytest.mark.check
def test_image_holds_compiled_modules_of_its_processes(image: Path) -> None:
    text = (ROOT / "Containerfile").read_text().replace("\\\n", "")
    commands = [line for line in re.findall(r"^RUN (.+)$", text, re.MULTILINE) if "PYTHONDONTWRITEBYTECODE" in line]
    assert len(commands) == 2
    for command in commands:
        given = command.replace("/opt/change-freeze/venv/bin/python", sys.executable)
        environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
        run = subprocess.run(given, cwd=image, env=environment, shell=True, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
    modules = [*(image / "handlers").glob("*.py"), image / "app" / "gunicorn.py", image / "app" / "worker.py"]
    compiled = [Path(importlib.util.cache_from_source(str(path))) for path in modules]
    assert [path.name for path in compiled if not path.exists()] == []


@pytest.mark.check
def test_image_holds_what_the_processes_import(image: Path) -> None:
    modules = "app.gunicorn, app.main, app.worker, " + ", ".join(each.module for each in COMMANDS)
    script = (
        f"import sys, {modules}; from app.commands.api import SETTINGS; print(app.__file__, SETTINGS.exists());"
        "print({'app.tracing', 'opentelemetry.sdk.trace', 'sentry_sdk'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", script]
    environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run(command, cwd=image, env=environment, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, f"{image}/app/__init__.py True\nset()\n"), run.stderr


def test_builder_is_sent_what_the_image_copies() -> None:
    ignored = (ROOT / ".containerignore").read_text()
    assert ignored == (ROOT / ".dockerignore").read_text()
    sent = {line.removeprefix("!") for line in ignored.splitlines() if line.startswith("!")}
    assert sent == set(copied())


def test_production_lock_agrees_with_that_of_development() -> None:
    names = ("requirements-production.lock", "requirements-observability.lock", "requirements.lock")
    locks = [(ROOT / name).read_text() for name in names]
    production, observable, development = (set(re.findall(r"^[\w.-]+==[^ ]+", text, re.MULTILINE)) for text in locks)
    assert len(production) > 60
    assert production < observable < development
    added = {each.partition("==")[0] for each in observable - production}
    assert {"opentelemetry-sdk", "sentry-sdk"} < added
    assert "pytest" not in locks[0]
    assert locks[0].count("--hash=sha256:") > len(production)


def environment_of(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def test_example_of_the_environment_is_accepted_when_it_is_filled_in() -> None:
    given = environment_of((DEPLOY / "service.env.example").read_text())
    filled = {name: value or "1234567890" * 4 for name, value in given.items()} | {"GITHUB_APP_ID": "1"}
    del filled["GITHUB_APP_PRIVATE_KEY_FILE"]
    assert given.keys() <= VARIABLES
    assert load_config(filled).default_plan == "business"


def commands_of(service: dict[str, Any]) -> list[str]:
    return list(service.get("command") or service.get("args") or [])


def test_compose_runs_every_process_of_the_service() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    ours = {name: service for name, service in services.items() if service.get("image") == "change-freeze"}
    assert {name: commands_of(service) for name, service in ours.items()} == {
        name: [name] for name in ("migrate", "api", "worker")
    }
    assert [name for name, service in ours.items() if service.get("expose") == ["9464"]] == ["api", "worker"]
    assert {name for name, service in services.items() if "ports" in service} == {"nginx"}
    for service in ours.values():
        assert service["environment"]["METRICS_BIND"] == ":9464"
        assert service["environment"].keys() <= VARIABLES
        assert service["read_only"]
    assert len([each for each in mounted(services) if each.startswith("./deploy/")]) == 4


def mounted(services: dict[str, dict[str, Any]]) -> list[str]:
    """Return the files and folders beside the compose file that its services mount."""
    volumes = [each for service in services.values() for each in service.get("volumes", ())]
    sources = [each["source"] if isinstance(each, dict) else each.split(":")[0] for each in volumes]
    return [source for source in sources if source.startswith("./")]


def test_compose_names_first_each_file_that_has_to_be_made() -> None:
    text = (ROOT / "compose.yaml").read_text()
    named = re.findall(r"^#   ([\w./-]+) {2,}", text.partition("\nname:")[0], re.MULTILINE)
    assert named == ["service.env", "github-app.pem", "tls/fullchain.pem", "tls/privkey.pem", ".env"]
    made = {each for each in mounted(yaml.safe_load(text)["services"]) if not each.startswith("./deploy/")}
    assert made == {"./github-app.pem", "./tls"}
    certificate = (DEPLOY / "nginx" / "change-freeze.conf").read_text()
    assert set(re.findall(r"/etc/ssl/change-freeze/(\S+);", certificate)) == {"fullchain.pem", "privkey.pem"}


def kubernetes(name: str = "change-freeze") -> dict[tuple[str, str], dict[str, Any]]:
    """Return the specifications of a file, by kind and name."""
    documents = yaml.safe_load_all((DEPLOY / "kubernetes" / f"{name}.yaml").read_text())
    return {(each["kind"], each["metadata"]["name"]): each["spec"] for each in documents}


def pod_of(specification: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the pod of a deployment or job, and its container."""
    pod = specification["template"]["spec"]
    [container] = pod["containers"]
    return pod, container


DEPLOYMENTS = {kind_and_name: spec for kind_and_name, spec in kubernetes().items() if kind_and_name[0] == "Deployment"}


def test_kubernetes_replaces_only_the_migration_by_force() -> None:
    [(kind_and_name, job)] = kubernetes("migrate").items()
    assert kind_and_name == ("Job", "change-freeze-migrate")
    assert commands_of(pod_of(job)[1]) == ["migrate"]
    assert "kubectl replace" not in (DEPLOY / "kubernetes" / "change-freeze.yaml").read_text()


def test_kubernetes_runs_every_process_of_this_release() -> None:
    containers = [pod_of(spec)[1] for spec in (*kubernetes("migrate").values(), *DEPLOYMENTS.values())]
    assert [commands_of(each) for each in containers] == [["migrate"], ["api"], ["worker"]]
    assert {each["image"] for each in containers} == {f"change-freeze:{VERSION}"}
    assert {name["name"] for each in containers for name in each.get("env", ())} <= VARIABLES
    assert all(each["securityContext"]["readOnlyRootFilesystem"] for each in containers)
    for container in containers[1:]:
        assert {"name": "METRICS_BIND", "value": ":9464"} in container["env"]
        assert {"name": "metrics", "containerPort": 9464} in container["ports"]


@pytest.mark.parametrize("name", [name for _, name in DEPLOYMENTS])
def test_kubernetes_keeps_one_of_each_process_apart_and_running(name: str) -> None:
    deployment, budget = DEPLOYMENTS["Deployment", name], kubernetes()["PodDisruptionBudget", name]
    labels = deployment["selector"]["matchLabels"]
    assert budget == {"minAvailable": 1, "selector": {"matchLabels": labels}}
    pod, container = pod_of(deployment)
    [spread] = pod["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["labelSelector"]["matchLabels"]) == ("kubernetes.io/hostname", labels)
    probes = {probe: container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "liveness", "readiness")}
    assert probes == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_only_monitoring_reaches_the_metrics_in_kubernetes() -> None:
    policies = {name: spec for (kind, name), spec in kubernetes().items() if kind == "NetworkPolicy"}
    admitted = {
        (port["port"], source["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"])
        for spec in policies.values()
        for rule in spec["ingress"]
        for port in rule["ports"]
        for source in rule["from"]
    }
    assert admitted == {("http", "ingress-nginx"), ("metrics", "monitoring")}
    everything = {"app.kubernetes.io/name": "change-freeze"}
    assert policies["change-freeze-metrics"]["podSelector"]["matchLabels"] == everything


def test_units_serve_metrics_on_the_loopback_where_prometheus_scrapes_them() -> None:
    prometheus = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    scraped = {
        job["job_name"]: sorted(target for group in job["static_configs"] for target in group["targets"])
        for job in prometheus["scrape_configs"]
    }
    served = {}
    for kind, instances in (("api", [""]), ("worker@", ["1", "2"])):
        text = (DEPLOY / "systemd" / f"change-freeze-{kind}.service").read_text()
        [address] = re.findall(r"^Environment=METRICS_BIND=(\S+)$", text, re.MULTILINE)
        served[f"change-freeze-{kind.removesuffix('@')}"] = [address.replace("%i", each) for each in instances]
    assert served == scraped
    assert "METRICS_BIND" not in environment_of((DEPLOY / "service.env.example").read_text())


def settings_of(unit: str, name: str) -> list[str]:
    """Return the values of a setting of a unit."""
    return re.findall(rf"^{name}=(.+)$", (DEPLOY / "systemd" / unit).read_text(), re.MULTILINE)


def test_socket_unit_listens_where_the_proxy_connects() -> None:
    [address] = settings_of("change-freeze-api.socket", "ListenStream")
    assert f"server {address} " in (DEPLOY / "nginx" / "upstream.conf").read_text()
    assert settings_of("change-freeze-api.service", "Requires") == ["change-freeze-api.socket"]


@pytest.mark.parametrize("unit", [unit for unit in UNITS if "migrate" not in unit and unit.endswith(".service")])
def test_unit_is_not_restarted_with_wrong_settings(unit: str) -> None:
    assert settings_of(unit, "Restart") == ["always"]
    assert settings_of(unit, "RestartPreventExitStatus") == ["3"]


@pytest.mark.parametrize("unit", UNITS)
def test_unit_runs_a_command_and_is_valid(unit: str, tmp_path: Path) -> None:
    if unit.endswith(".service"):
        [command] = settings_of(unit, "ExecStart")
        assert command.removeprefix("/opt/change-freeze/venv/bin/python -m app ") in NAMES
    verifier = shutil.which("systemd-analyze")
    if verifier is None:
        pytest.skip("systemd-analyze is not on this machine (Debian: apt-get install systemd)")
    for name in UNITS:
        text = (DEPLOY / "systemd" / name).read_text()
        here = text.replace("/opt/change-freeze/venv/bin/python", sys.executable)
        (tmp_path / name.replace("@", "@1")).write_text(here.replace("/opt/change-freeze/service", "/"))
    file = tmp_path / unit.replace("@", "@1")
    run = subprocess.run([verifier, "verify", "--man=no", file], capture_output=True, text=True, check=False)
    complaints = [line for line in run.stderr.splitlines() if Path(unit).stem.partition("@")[0] in line]
    assert (run.returncode, complaints) == (0, [])
