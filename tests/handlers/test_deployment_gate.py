"""The deployment gate: the script of the GitHub action, run as runners do, against the served product."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from models.repositories import Repository, WatchedBranch
from tests import factories
from tests.handlers.callers import Tenant
from tests.harness.servers import in_thread

GATE = Path(__file__).resolve().parents[2] / "gate"
TIMEOUT_SECONDS = 60
HOSTILE = 'Stop\r\n::error::injected\n##[set-env]x %0A::set-output name=frozen::false\x1b[31m `$(touch pwned)` :::: "'

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("bash", "curl", "jq"))), reason="the gate needs bash, curl and jq"
)


@dataclass(frozen=True, slots=True)
class Ended:
    """What a run of the gate left."""

    status: int
    text: str
    outputs: dict[str, str]
    summary: str

    @property
    def commands(self) -> list[str]:
        """The lines that a runner takes for commands."""
        return [line for line in self.text.splitlines() if line.lstrip().startswith("::") or "##[" in line]


@dataclass(slots=True)
class Gate:
    """Runs the script with an environment of its own."""

    directory: Path
    environment: dict[str, str] = field(default_factory=dict)

    def start(self, **changes: str) -> subprocess.Popen[str]:
        """Start the script."""
        given = {
            "PATH": os.environ["PATH"],
            "REPOSITORY": "acme/web",
            "BRANCH": "main",
            "POLL_SECONDS": "0.1",
            "RETRY_SECONDS": "0",
            "GITHUB_OUTPUT": str(self.directory / "output"),
            "GITHUB_STEP_SUMMARY": str(self.directory / "summary"),
            **self.environment,
            **changes,
        }
        return subprocess.Popen(
            [GATE / "gate.sh"],
            env=given,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self, process: subprocess.Popen[str]) -> Ended:
        """Return what a run left once it has ended; it is killed if it does not end."""
        try:
            text, _ = process.communicate(timeout=TIMEOUT_SECONDS)
        finally:
            process.kill()
            process.wait()
        lines = self._written("output").splitlines()
        return Ended(process.returncode, text, dict(line.split("=", 1) for line in lines), self._written("summary"))

    def run(self, **changes: str) -> Ended:
        """Return what a run left."""
        return self.finish(self.start(**changes))

    def _written(self, name: str) -> str:
        path = self.directory / name
        return path.read_text() if path.exists() else ""


@pytest.fixture
def gate(acme: Tenant, web: WatchedBranch, served: str, tmp_path: Path) -> Gate:
    key = factories.api_key(acme.session, acme.organization, "freeze:read").secret
    return Gate(tmp_path, {"FREEZE_URL": served, "FREEZE_KEY": key})


@contextmanager
def answering(status: int, body: bytes, announced: int | None = None) -> Iterator[tuple[str, list[str]]]:
    """Serve this answer to every request, and yield the address and the paths that were requested.

    With `announced`, it breaks off before this length.
    """
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(status)
            self.send_header("Location", "https://elsewhere.example/")
            self.send_header("Content-Length", str(len(body) if announced is None else announced))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    with in_thread(HTTPServer(("127.0.0.1", 0), Handler)) as port:
        yield f"http://127.0.0.1:{port}", seen


def unused_address() -> str:
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{one.getsockname()[1]}"


class TestGate:
    def test_open_branch_lets_the_deployment_through(self, gate: Gate) -> None:
        ended = gate.run()
        assert (ended.status, ended.text) == (0, "acme/web:main is open.\n")
        assert ended.outputs == {"frozen": "false", "enforced": "false", "frozen-until": "", "next-change-at": ""}
        assert ended.summary == ""

    def test_frozen_branch_stops_the_deployment_with_the_reason(
        self, gate: Gate, acme: Tenant, web: WatchedBranch
    ) -> None:
        ends_at = factories.now().replace(year=2099, microsecond=0)
        factories.freeze(acme.session, acme.organization, [web], reason="Database migration", ends_at=ends_at)
        ended = gate.run()
        assert ended.status == 1
        assert ended.commands == ended.text.splitlines()
        assert ended.text.startswith("::error title=Freeze gate::acme/web:main is frozen until 2099-")
        assert ": Database migration; " in ended.text
        assert (ended.outputs["frozen"], ended.outputs["enforced"]) == ("true", "false")
        assert "GitHub is not known to refuse merges into all that is frozen" in ended.text
        assert ended.outputs["frozen-until"] == ended.outputs["next-change-at"]
        assert ended.outputs["frozen-until"].startswith("2099-")
        assert "Database migration" in ended.summary

    def test_gate_that_is_enforced_stops_the_deployment_all_the_same(
        self, gate: Gate, acme: Tenant, web: WatchedBranch
    ) -> None:
        factories.branch_enforcement(acme.session, web)
        factories.freeze(acme.session, acme.organization, [web])
        ended = gate.run()
        assert (ended.status, ended.outputs["frozen"], ended.outputs["enforced"]) == (1, "true", "true")
        assert "; GitHub refuses merges into all that is frozen" in ended.text

    def test_gate_without_a_branch_counts_any_frozen_branch(self, gate: Gate, acme: Tenant, web: WatchedBranch) -> None:
        release = factories.branch(acme.session, acme.session.get_one(Repository, web.repository_id), "release")
        factories.freeze(acme.session, acme.organization, [release])
        assert gate.run().status == 0
        assert gate.run(BRANCH="").status == 1

    def test_gate_that_only_reports_ends_well_and_sets_its_outputs(
        self, gate: Gate, acme: Tenant, web: WatchedBranch
    ) -> None:
        factories.freeze(acme.session, acme.organization, [web])
        ended = gate.run(ON_FROZEN="report")
        assert (ended.status, ended.outputs["frozen"], ended.commands) == (0, "true", [])

    def test_waiting_gate_goes_on_when_the_freeze_ends(self, gate: Gate, acme: Tenant, web: WatchedBranch) -> None:
        freeze = factories.freeze(acme.session, acme.organization, [web])
        process = gate.start(ON_FROZEN="wait")
        try:
            assert process.stdout is not None
            assert "is frozen" in process.stdout.readline()
            freeze.ended_at, freeze.end_reason = factories.now(), "lifted"
            acme.session.flush()
        except BaseException:
            process.kill()
            raise
        ended = gate.finish(process)
        assert ended.status == 0
        assert ended.text.endswith("acme/web:main is open.\n")
        assert ended.outputs["frozen"] == "false"

    def test_waiting_gate_gives_up_when_its_time_is_over(self, gate: Gate, acme: Tenant, web: WatchedBranch) -> None:
        factories.freeze(acme.session, acme.organization, [web])
        assert gate.run(ON_FROZEN="wait", WAIT_MINUTES="0").status == 1

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"BRANCH": "nothing"}, "branch_not_found"),
            ({"REPOSITORY": "acme/nothing"}, "repository_not_found"),
            ({"FREEZE_KEY": "svc_live_wrong"}, "invalid_token"),
        ],
    )
    def test_refused_gate_fails_at_once_whatever_its_inputs_say(
        self, gate: Gate, changes: dict[str, str], code: str
    ) -> None:
        ended = gate.run(ON_ERROR="pass", ON_FROZEN="wait", RETRY_SECONDS="1000", **changes)
        assert ended.status == 2
        assert code in ended.text
        assert ended.outputs == {}

    def test_gate_fails_closed_when_the_service_is_away(self, gate: Gate) -> None:
        address = unused_address()
        ended = gate.run(FREEZE_URL=address)
        assert (ended.status, ended.outputs) == (2, {})
        passed = gate.run(FREEZE_URL=address, ON_ERROR="pass")
        assert (passed.status, passed.outputs) == (0, {})
        assert passed.text.startswith("::warning title=Freeze gate::")

    @pytest.mark.parametrize(
        ("status", "body"),
        [
            (500, b"{}"),
            (302, b""),
            (200, b"<html>Sign in to the network</html>"),
            (200, b""),
            (200, b'{"frozen": "false"}'),
            (200, b'{"frozen": true}{"frozen": false}'),
            (200, b'{"frozen": true, "frozen": false}'),
            (200, b'[{"frozen": false}]'),
            (200, b'{"frozen": false}\n{'),
            (206, b'{"frozen": false}'),
            (304, b""),
        ],
    )
    def test_gate_fails_closed_when_the_answer_is_malformed(self, gate: Gate, status: int, body: bytes) -> None:
        with answering(status, body) as (address, seen):
            ended = gate.run(FREEZE_URL=address)
        assert (ended.status, ended.outputs, len(seen)) == (2, {}, 4)

    def test_gate_fails_closed_when_the_answer_breaks_off(self, gate: Gate) -> None:
        with answering(200, b'{"frozen": false}', announced=400) as (address, seen):
            ended = gate.run(FREEZE_URL=address)
        assert (ended.status, ended.outputs, len(seen)) == (2, {}, 4)

    def test_hostile_reason_is_no_command_of_the_runner(self, gate: Gate, acme: Tenant, web: WatchedBranch) -> None:
        factories.freeze(acme.session, acme.organization, [web], reason=HOSTILE)
        for mode in ("fail", "report", "wait"):
            ended = gate.run(ON_FROZEN=mode, WAIT_MINUTES="0")
            assert len(ended.text.splitlines()) == 1
            line = ended.text.removeprefix("::error title=Freeze gate::")
            assert (line != ended.text) is (mode != "report")
            assert "::" not in line
            assert "##[" not in line
            assert "\x1b" not in line
            assert ("%0A" in line) is (mode == "report")  # only the data of commands is decoded
        assert {*ended.outputs} == {"frozen", "enforced", "frozen-until", "next-change-at"}
        assert ended.summary.count("\n    ") == ended.summary.count("### Frozen") == 3
        assert not (gate.directory / "pwned").exists()

    def test_hostile_answer_writes_no_outputs_of_its_own(self, gate: Gate) -> None:
        instant = b'"2099-01-01\\nfrozen=false"'
        body = b'{"frozen": true, "nextChangeAt": %b, "frozenUntil": %b, "freezes": [{"reason": 1}, 2]}' % (
            instant,
            instant,
        )
        with answering(200, body) as (address, _):
            ended = gate.run(FREEZE_URL=address)
        nothing = {"enforced": "", "frozen-until": "", "next-change-at": ""}
        assert (ended.status, ended.outputs) == (1, {"frozen": "true", **nothing})

    @pytest.mark.parametrize(
        "changes",
        [{"ON_FROZEN": "$(id)"}, {"ON_ERROR": "ignore"}, {"WAIT_MINUTES": "a[$(touch pwned)]"}, {"FREEZE_KEY": ""}],
    )
    def test_gate_refuses_inputs_that_it_does_not_know(self, gate: Gate, changes: dict[str, str]) -> None:
        assert gate.run(**changes).status == 2
        assert not (gate.directory / "pwned").exists()

    def test_key_is_no_argument_of_a_process(self, gate: Gate, tmp_path: Path) -> None:
        stand_in = tmp_path / "bin" / "curl"
        stand_in.parent.mkdir()
        stand_in.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/arguments\nexec {shutil.which("curl")} "$@"\n')
        stand_in.chmod(0o755)
        assert gate.run(PATH=f"{stand_in.parent}:{os.environ['PATH']}").status == 0
        written = (tmp_path / "arguments").read_text()
        assert "/v1/freeze-state" in written
        assert gate.environment["FREEZE_KEY"] not in written

    @pytest.mark.parametrize(("frozen", "status"), [(False, 0), (True, 1)])
    def test_line_of_the_guide_ends_well_only_when_nothing_is_frozen(
        self, gate: Gate, acme: Tenant, web: WatchedBranch, *, frozen: bool, status: int
    ) -> None:
        if frozen:
            factories.freeze(acme.session, acme.organization, [web])
        guide = (GATE.parent / "docs" / "guide" / "automation.md").read_text()
        line = guide.partition("```sh\n")[2].partition("\n```")[0]
        given = {"PATH": os.environ["PATH"], **gate.environment}
        ended = subprocess.run(["bash", "-c", line], env=given, capture_output=True, check=False, timeout=60)
        assert (ended.returncode != 0) is bool(status), ended.stderr


def test_action_passes_every_input_through_the_environment() -> None:
    action = yaml.safe_load((GATE / "action.yml").read_text())
    [step] = action["runs"]["steps"]
    assert "${{" not in step["run"]
    used = {value.removeprefix("${{ inputs.").removesuffix(" }}") for value in step["env"].values()}
    assert used == set(action["inputs"])
    assert action["inputs"]["on-error"]["default"] == action["inputs"]["on-frozen"]["default"] == "fail"
