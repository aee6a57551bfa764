"""`make run`, as a newcomer meets it: real processes, real HTTP, real signals."""

import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path

import jwt
import psycopg
import pytest
import requests
from redis import Redis

from rules.rate_budget import GitHubLimits
from tests.harness.concurrency import eventually
from tests.harness.processes import is_gone
from tests.tools.sandbox.documents import DOCUMENTED_STATUSES, documented_commands, reused_values, with_values
from tests.tools.sandbox.running import ROOT, WITH_SIGINT, Run, processes_of, running_in, runs, start
from tools.sandbox.tenants import SCOPES

pytestmark = [pytest.mark.check, pytest.mark.slow(90)]


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="change-freeze-sandbox-", dir="/tmp"))
    directory.chmod(0o711)
    yield directory
    for run in runs:
        if run.process.poll() is None:  # a test has failed
            run.process.kill()
            run.process.wait()
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def sandbox(home: Path) -> Iterator[Run]:
    run = start(home / "sandbox")
    yield run.wait_until_ready()
    run.stop()


class TestReadySandbox:
    def test_demo_shows_a_freeze_from_beginning_to_end(self, sandbox: Run) -> None:
        assert (
            '405 Repository rule violations found: Required status check "change-freeze/main" is failing.'
            in sandbox.output
        )
        assert "heads blocked after" in sandbox.output
        assert "heads released after" in sandbox.output
        assert "200 Pull Request successfully merged" in sandbox.output

    def test_demo_waits_for_no_rule_that_github_might_apply_late(self, sandbox: Run) -> None:
        acme = sandbox.report["organizations"]["acme"]
        [freeze] = sandbox.get("/v1/freezes?state=ended", acme["keys"]["freeze:read"]).json()["data"]
        ended, released = (datetime.fromisoformat(freeze[name]) for name in ("endedAt", "releasedAt"))
        assert released - ended < GitHubLimits().ruleset_delay

    def test_demo_leaves_no_freeze_behind(self, sandbox: Run) -> None:
        acme = sandbox.report["organizations"]["acme"]
        assert sandbox.get("/v1/freeze-state?repo=acme/web", acme["keys"]["freeze:read"]).json()["frozen"] is False

    def test_command_line_starts_and_lifts_a_freeze_of_the_sandbox(self, sandbox: Run) -> None:
        key = sandbox.report["organizations"]["globex"]["keys"]["all"]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "cli"), "HOME": str(sandbox.directory)}
        environment |= {"FREEZE_URL": sandbox.report["baseUrl"], "FREEZE_KEY": key}

        def freeze(*arguments: str) -> int:
            command = [sys.executable, "-m", "change_freeze_cli", *arguments]
            return subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False).returncode

        [repository] = sandbox.get("/v1/repos?limit=1&enabled=true", key).json()["data"]
        assert freeze("start", repository["fullName"], "--reason", "Release under way", "--yes") == 0
        assert freeze("state", repository["fullName"], "--exit-code") == 1
        assert freeze("lift", repository["fullName"]) == 0
        assert freeze("state", repository["fullName"], "--exit-code") == 0

    def test_report_is_readable_only_by_its_owner(self, sandbox: Run) -> None:
        for name in ("sandbox.json", "secrets.json", "service.env"):
            assert (sandbox.directory / name).stat().st_mode & 0o777 == 0o600

    def test_report_names_every_running_process(self, sandbox: Run) -> None:
        pids = sandbox.report["pids"]
        simulated = {"fake_github", "fake_stripe", "fake_slack", "mailbox"}
        assert set(pids) == {"api", "worker", "postgres", "redis", *simulated}
        assert [name for name, process in pids.items() if is_gone(process)] == []

    def test_maintenance_leads_to_the_status_page(self, sandbox: Run) -> None:
        lines = (sandbox.directory / "service.env").read_text().splitlines()
        [address] = [line.partition("=")[2].strip("'\"") for line in lines if "STATUS_URL=" in line]
        page = requests.get(address, timeout=10)
        assert (page.status_code, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")

    def test_stripe_answers_and_sends_its_webhooks_to_the_service(self, sandbox: Run) -> None:
        url, key = sandbox.report["stripeUrl"], sandbox.report["stripeKey"]
        prices = requests.get(f"{url}/v1/prices", headers={"Authorization": f"Bearer {key}"}, timeout=10).json()["data"]
        assert {each["lookup_key"] for each in prices} >= {"team_month", "business_year"}
        settings = requests.get(f"{url}/_control/settings", timeout=10).json()
        assert settings["webhookUrl"] == f"{sandbox.report['baseUrl']}/webhooks/stripe"
        assert settings["webhookSecrets"]

    def test_prices_of_both_plans_are_on_sale_in_the_sandbox(self, sandbox: Run) -> None:
        viewer = sandbox.report["organizations"]["globex"]["sessions"]["viewer"]
        listed = sandbox.get("/v1/billing/prices", viewer).json()["data"]
        assert {(each["plan"], each["interval"], each["currency"]) for each in listed} == set(
            itertools.product(("team", "business"), ("month", "year"), ("EUR", "USD"))
        )

    def test_mail_of_the_service_is_shown_in_the_mailbox(self, sandbox: Run) -> None:
        eve = {"name": "Eve Adams", "email": "eve.adams@example.com", "password": "canoe-Harbour-71-violet"}
        requests.post(sandbox.report["baseUrl"] + "/api/auth/sign-up", json=eve, timeout=10).raise_for_status()
        address = sandbox.report["mailboxUrl"] + "/mails.json"
        eventually(lambda: len(requests.get(address, params={"to": eve["email"]}, timeout=10).json()) == 1)
        [mail] = requests.get(address, params={"to": eve["email"]}, timeout=10).json()
        assert mail["links"][0].startswith(sandbox.report["webUrl"])
        token = mail["links"][0].partition("token=")[2]
        confirm = sandbox.report["baseUrl"] + "/api/auth/verify-email"
        for password, status in (("canoe-Harbour-72-violet", 401), (eve["password"], 200)):
            assert requests.post(confirm, json={"token": token, "password": password}, timeout=10).status_code == status
        readiness = requests.get(sandbox.report["baseUrl"] + "/readyz", timeout=10).json()
        assert readiness["checks"]["mail"] == "ok"

    @pytest.mark.parametrize("name", ["acme", "globex"])
    def test_start_of_a_freeze_is_mailed_to_the_owner(self, sandbox: Run, name: str) -> None:
        organization = sandbox.report["organizations"][name]
        headers = {"Authorization": f"Bearer {organization['keys']['all']}"}
        reason = f"Mails of {name}"
        body = {"scope": {"type": "repositories", "repositories": [organization["repositories"][0]]}, "reason": reason}
        freezes = sandbox.report["baseUrl"] + "/v1/freezes"
        freeze = requests.post(freezes, json=body, headers=headers, timeout=10).json()
        address = sandbox.report["mailboxUrl"] + "/mails.json"

        def mails() -> str:
            return requests.get(address, params={"to": f"owner@{name}.example"}, timeout=10).text

        eventually(lambda: reason in mails())
        requests.post(f"{freezes}/{freeze['id']}/lift", headers=headers, timeout=10).raise_for_status()

    def test_listener_shows_webhooks_and_leaves_none_behind(self, sandbox: Run, tmp_path: Path) -> None:
        acme = sandbox.report["organizations"]["acme"]
        base, headers = sandbox.report["baseUrl"], {"Authorization": f"Bearer {acme['keys']['all']}"}
        scope = {"scope": {"type": "repositories", "repositories": ["acme/docs"]}}
        log = tmp_path / "listener"
        with log.open("wb") as output:
            command = [sys.executable, "-m", "tools.sandbox.listen", "freeze.*", "--directory", str(sandbox.directory)]
            listener = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        try:
            eventually(lambda: "Ctrl-C ends it" in log.read_text())
            body = {**scope, "reason": "Listen to this"}
            requests.post(f"{base}/v1/freezes", json=body, headers=headers, timeout=10).raise_for_status()
            requests.post(f"{base}/v1/freezes/lift", json=scope, headers=headers, timeout=10).raise_for_status()
            eventually(lambda: {"freeze.started", "freeze.lifted"} <= set(log.read_text().split()))
        finally:
            listener.send_signal(signal.SIGTERM)
        assert listener.wait(30) == 0, log.read_text()
        assert "refused" not in log.read_text()
        assert sandbox.get("/v1/webhooks", acme["sessions"]["admin"]).json()["data"] == []

    def test_new_account_finds_a_github_account_to_install_the_app_in(self, sandbox: Run) -> None:
        administrator = sandbox.report["organizations"]["globex"]["sessions"]["admin"]
        address = sandbox.get("/v1/github/install-url", administrator).json()["url"]
        answer = requests.get(address, allow_redirects=False, timeout=10)
        assert answer.status_code == 302
        assert answer.headers["Location"].startswith(sandbox.report["webUrl"] + "/installed?")

    @pytest.mark.parametrize(("name", "status"), [("acme", 200), ("globex", 409)])
    def test_rulesets_of_acme_are_authorized_and_those_of_globex_are_not(
        self, sandbox: Run, name: str, status: int
    ) -> None:
        administrator = sandbox.report["organizations"][name]["sessions"]["admin"]
        body = {"scope": {"type": "organization"}, "mode": "apply"}
        headers = {"Authorization": f"Bearer {administrator}"}
        address = sandbox.report["baseUrl"] + "/v1/enforcement/setup"
        assert requests.post(address, json=body, headers=headers, timeout=30).status_code == status

    def test_sandbox_servers_are_reachable_by_other_tools(self, sandbox: Run) -> None:
        with psycopg.connect(sandbox.report["databaseUrl"]) as connection:
            plans = (
                "SELECT slug, plan FROM organizations JOIN plan_grants ON organization_id = id WHERE source = 'manual'"
            )
            assert connection.execute(plans).fetchall() == [("acme", "business")]
            logins = connection.execute(
                "SELECT DISTINCT usename FROM pg_stat_activity WHERE backend_type = 'client backend'"
            )
            assert {name for (name,) in logins} == {"postgres", "change_freeze_service"}
            owned = "SELECT count(*) FROM pg_tables WHERE tableowner = 'change_freeze_service'"
            assert connection.execute(owned).fetchone() == (0,)
        with Redis.from_url(sandbox.report["redisUrl"]) as client:
            assert client.ping()

    def test_sandbox_has_a_key_of_all_scopes_and_a_key_per_scope(self, sandbox: Run) -> None:
        for organization in sandbox.report["organizations"].values():
            assert set(organization["keys"]) == {"all", *SCOPES}
            assert sandbox.get("/v1/repos", organization["keys"]["all"]).status_code == 200
            assert sandbox.get("/v1/repos", organization["keys"]["repo:read"]).status_code == 200
            assert sandbox.get("/v1/repos", organization["keys"]["freeze:write"]).status_code == 403

    def test_each_role_has_a_session_of_twelve_hours(self, sandbox: Run) -> None:
        for organization in sandbox.report["organizations"].values():
            assert set(organization["sessions"]) == {"owner", "admin", "member", "viewer"}
            for token in organization["sessions"].values():
                claims = jwt.decode(token, options={"verify_signature": False})
                assert claims["exp"] - claims["iat"] == 43_200
                assert sandbox.get("/v1/repos", token).status_code == 200

    def test_every_sandbox_repository_is_enabled_and_watched(self, sandbox: Run) -> None:
        for organization in sandbox.report["organizations"].values():
            listed = sandbox.get("/v1/repos?limit=100", organization["keys"]["all"]).json()["data"]
            assert {each["fullName"] for each in listed} == set(organization["repositories"])
            assert all(each["enabled"] and each["watchedBranchCount"] for each in listed)

    def test_printed_shell_commands_work(self, sandbox: Run) -> None:
        lines = [line for line in sandbox.output.splitlines() if line.startswith(("  export ", "  curl ", "  (. "))]
        assert len(lines) == 9
        script = "\n".join(['curl() { command curl -s --fail-with-body "$@"; }', *lines])
        pasted = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, check=False)
        assert pasted.returncode == 0, pasted.stdout + pasted.stderr

    def test_documented_commands_have_the_documented_status(self, sandbox: Run, tmp_path: Path) -> None:
        exports = "\n".join(line for line in sandbox.output.splitlines() if line.startswith("  export "))
        statuses: dict[str, list[int]] = {document: [] for document in DOCUMENTED_STATUSES}
        known = dict[str, str]()
        for document in DOCUMENTED_STATUSES:
            for command in documented_commands(document):
                script = f"{exports}\n{with_values(command, known)} -s -w '\\n%{{http_code}}'"
                run = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
                statuses[document].append(int(run.stdout.rpartition("\n")[2]))
                known = reused_values(run.stdout) | known
        assert statuses == DOCUMENTED_STATUSES
        assert (tmp_path / "audit.csv").read_text().startswith("id,at,action,")

    def test_every_document_with_commands_is_tested(self) -> None:
        documents = [path for path in ROOT.glob("docs/**/*.md") if documented_commands(str(path.relative_to(ROOT)))]
        assert {str(path.relative_to(ROOT)) for path in documents} <= set(DOCUMENTED_STATUSES)

    def test_second_sandbox_in_the_same_directory_is_rejected(self, sandbox: Run) -> None:
        second = subprocess.run(
            [sys.executable, "-m", "tools.sandbox"],
            cwd=ROOT,
            env=os.environ | {"SANDBOX_DIR": str(sandbox.directory)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert second.returncode == 1
        assert "already" in second.stderr


class TestStopping:
    """What a test leaves running, the next one uses: each start takes seconds."""

    def test_second_start_keeps_the_data_and_makes_new_sessions(self, sandbox: Run) -> None:
        before = sandbox.report
        assert sandbox.stop() == 0
        assert not (sandbox.directory / "sandbox.json").exists()
        assert [process for process in before["pids"].values() if not is_gone(process)] == []
        second = running_in(sandbox.directory)
        assert "POST /v1/freezes " not in second.output
        for name, organization in before["organizations"].items():
            again = second.report["organizations"][name]
            assert again["id"] == organization["id"]
            assert again["keys"] == organization["keys"]
            assert all(again["sessions"][role] != token for role, token in organization["sessions"].items())

    def test_sandbox_killed_with_9_leaves_nothing_and_restarts(self, home: Path) -> None:
        killed = running_in(home / "sandbox")
        pids = killed.report["pids"].values()
        killed.process.kill()
        killed.process.wait()
        running_in(home / "sandbox")
        assert [process for process in pids if not is_gone(process)] == []

    def test_killed_process_is_restarted_and_the_service_continues(self, home: Path) -> None:
        run = running_in(home / "sandbox")
        first = run.report["pids"]
        for name, pid in first.items():
            os.kill(pid, signal.SIGKILL)
            eventually(partial(_is_restarted, run, name, pid))
        acme = run.report["organizations"]["acme"]
        address, headers = run.report["baseUrl"], {"Authorization": f"Bearer {acme['keys']['all']}"}
        scope = {"scope": {"type": "repositories", "repositories": ["acme/web"]}}

        def started() -> bool:
            answer = requests.post(
                f"{address}/v1/freezes", json={**scope, "reason": "After the storm"}, headers=headers, timeout=10
            )
            return answer.status_code == 201

        eventually(lambda: _quietly(started))
        eventually(lambda: _enforced(address, headers))
        assert requests.post(f"{address}/v1/freezes/lift", json=scope, headers=headers, timeout=10).status_code == 200

    def test_process_that_keeps_ending_stops_the_sandbox_with_its_log(self, home: Path) -> None:
        broken = running_in(home / "sandbox")
        pids = set(broken.report["pids"].values())
        while broken.process.poll() is None:
            with suppress(ProcessLookupError, FileNotFoundError):
                worker = broken.report["pids"]["worker"]
                pids.add(worker)
                os.kill(worker, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                broken.process.wait(0.05)
        assert broken.process.wait(60) == 1
        assert "worker has ended (killed by SIGKILL). The end of" in broken.output
        assert [process for process in pids if not is_gone(process)] == []

    def test_stopped_make_stops_the_sandbox(self, home: Path) -> None:
        makefile = home / "Makefile"
        makefile.write_text(f"run:\n\t@{sys.executable} -m tools.sandbox\n")
        under_make = start(home / "sandbox", [*WITH_SIGINT, "make", "-f", str(makefile)], DEMO="0")
        pids = under_make.wait_until_ready().report["pids"].values()
        under_make.process.send_signal(signal.SIGINT)  # to be created alone, without webhooks
        under_make.process.wait(60)
        assert [process for process in pids if not is_gone(process)] == []

    def test_sandbox_stopped_during_its_start_leaves_nothing(self, home: Path) -> None:
        run = start(home / "middle")
        eventually(lambda: "GitHub" in run.output)
        assert run.stop() == 0
        assert not (run.directory / "sandbox.json").exists()
        assert processes_of(run.directory) == []


def _quietly(ask: Callable[[], bool]) -> bool:
    with suppress(requests.RequestException):
        return ask()
    return False


def _enforced(address: str, headers: dict[str, str]) -> bool:
    freezes = requests.get(f"{address}/v1/freezes", params={"state": "in_force"}, headers=headers, timeout=10).json()[
        "data"
    ]
    return all(freeze["enforcedAt"] for freeze in freezes)


def _is_restarted(run: Run, name: str, pid: int) -> bool:
    return bool(run.report["pids"][name] != pid)
