"""The command `freeze` against the served product."""

import json
import os
import shutil
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis
from sqlalchemy.orm import Session

from models.freezes import Freeze
from models.organizations import LoginSession
from models.repositories import Repository, WatchedBranch
from rules.freezes.blocking import CAUSES
from tests import factories
from tests.handlers.callers import Caller, Tenant
from tests.handlers.command_line import Command, command_of
from tests.handlers.device_sign_in.requests import Device, decide, signed_in

REASON = ["--reason", "Release under way"]
HOSTILE = "Stop\x1b]0;owned\x07\x1b[2J\r\nfreeze: all is open\u202e\x9b31m"


@pytest.fixture
def freeze(acme: Tenant, served: str, tmp_path: Path) -> Command:
    return command_of(acme, served, tmp_path)


def decide_shown(person: Caller, decision: str, notes: list[str]) -> None:
    """Have a person decide the sign-in whose code the command has shown."""
    device = Device(person.http, "", notes[-1].rpartition(" ")[2])
    assert decide(person, device, decision).status_code == 200


def freezes(acme: Tenant) -> list[Freeze]:
    return acme.session.query(Freeze).all()


class TestState:
    def test_gate_is_open_until_something_is_frozen(self, freeze: Command, acme: Tenant, web: WatchedBranch) -> None:
        gate = ("state", "acme/web", "--branch", "main", "--exit-code", "--utc")
        opened = freeze(*gate)
        assert (opened.exit_code, opened.stdout, opened.stderr) == (0, "acme/web:main is open.\n", "")
        ends_at = datetime(2099, 1, 4, 8, tzinfo=UTC)
        factories.freeze(acme.session, acme.organization, [web], reason="Database migration", ends_at=ends_at)
        frozen = freeze(*gate)
        assert frozen.exit_code == 1
        warned = "GitHub is not known to refuse merges into all that is frozen; `freeze doctor` says more."
        assert frozen.stdout.startswith(f"{warned}\nacme/web:main is frozen.\nID ")
        assert "Database migration" in frozen.stdout
        assert frozen.stdout.endswith("Next change: 2099-01-04 08:00 UTC\n")
        assert freeze(*gate[:4]).exit_code == 0
        factories.branch_enforcement(acme.session, web)
        enforced = freeze(*gate)
        assert enforced.exit_code == 1
        assert enforced.stdout.startswith(
            "acme/web:main is frozen.\nGitHub refuses merges into all that is frozen.\nID "
        )

    def test_json_is_the_object_of_the_api(
        self, freeze: Command, acme: Tenant, web: WatchedBranch, http: httpx.Client
    ) -> None:
        factories.freeze(acme.session, acme.organization, [web], reason=HOSTILE)
        given = {"Authorization": f"Bearer {freeze.environment['FREEZE_KEY']}"}
        expected = http.get("/v1/freeze-state", params={"repo": "acme/web"}, headers=given).json()
        result = freeze("state", "acme/web", "--json")
        assert json.loads(result.stdout) == expected
        assert result.stdout.isprintable() or set(filter(lambda one: not one.isprintable(), result.stdout)) == {"\n"}

    @pytest.mark.parametrize(
        ("arguments", "changes", "code"),
        [
            (["acme/nothing"], {}, "repository_not_found"),
            (["acme/web"], {"FREEZE_KEY": "svc_live_wrong"}, "invalid_token"),
        ],
    )
    def test_gate_ends_with_3_when_it_is_refused(
        self, freeze: Command, arguments: list[str], changes: dict[str, str], code: str
    ) -> None:
        gate = freeze("state", *arguments, "--exit-code", **changes)
        assert (gate.exit_code, gate.stdout) == (3, "")
        assert code in gate.stderr
        assert freeze("state", *arguments, **changes).exit_code == 1

    def test_hostile_reason_gives_no_command_to_the_terminal(
        self, freeze: Command, acme: Tenant, web: WatchedBranch
    ) -> None:
        factories.freeze(acme.session, acme.organization, [web], reason=HOSTILE)
        for arguments in (["state", "acme/web"], ["list"]):
            shown = freeze(*arguments).stdout
            assert r"Stop\x1b]0;owned\x07\x1b[2J freeze: all is open\u202e\x9b31m" in shown
            assert all(line.isprintable() for line in shown.split("\n"))


class TestStart:
    def test_start_shows_the_impact_and_asks(self, freeze: Command, acme: Tenant, web: WatchedBranch) -> None:
        declined = freeze("start", "acme/*", *REASON, answer="n\n")
        assert (declined.exit_code, declined.stdout) == (1, "")
        assert "1 branch in 1 repository, 0 open pull requests" in declined.stderr
        assert freeze("start", "acme/*", *REASON).exit_code == 1
        assert freezes(acme) == []
        started = freeze("start", "acme/*", *REASON, answer="y\n")
        assert started.exit_code == 0, started.output
        [row] = freezes(acme)
        gap = "  gap       1 branch not known to be blocked: GitHub's rules were not read yet.\n"
        assert started.stdout.startswith(f"{row.id}  in_force  acme/*\n  enforced  no\n{gap}")
        assert "1 of 1 branch is not known to block: `freeze doctor` says why.\n  1 branch in 1" in declined.stderr
        assert (row.reason, row.previewed_repo_count, row.ends_at) == ("Release under way", 1, None)

    def test_start_that_asks_nothing_sends_the_previewed_count(
        self, freeze: Command, acme: Tenant, web: WatchedBranch
    ) -> None:
        begun = datetime.now(UTC)
        given = ("--for", "2h", "--no-exceptions", "--public-text", "Merging is paused", "--yes")
        shown = freeze.json("start", "--all", *REASON, *given)
        assert (shown["previewedRepoCount"], shown["exceptionsAllowed"]) == (1, False)
        assert shown["publicText"] == "Merging is paused"
        assert abs(datetime.fromisoformat(shown["endsAt"]) - begun - timedelta(hours=2)) < timedelta(minutes=5)

    @pytest.mark.parametrize(
        ("rules", "column", "lines"),
        [
            ({}, "yes", ["  enforced  yes, since 2026-11-21 09:30 UTC"]),
            (
                {"open_ways": ["deletion"]},
                "in part",
                [
                    "  enforced  in part, since 2026-11-21 09:30 UTC",
                    (
                        "  gap       1 branch blocked only in part: "
                        "Everybody who may push can delete the branch and create it again."
                    ),
                ],
            ),
            (
                {"decisive_check": None},
                "no",
                [
                    "  enforced  no; it was from 2026-11-21 09:30 UTC",
                    f"  gap       1 branch not blocked: {CAUSES['no_rule']}",
                ],
            ),
        ],
    )
    def test_freeze_is_shown_with_whether_it_is_enforced_and_why_not(
        self, freeze: Command, acme: Tenant, web: WatchedBranch, rules: dict[str, Any], column: str, lines: list[str]
    ) -> None:
        factories.branch_enforcement(acme.session, web, **rules)
        at = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
        row = factories.freeze(acme.session, acme.organization, [web], enforced_at=at, first_enforced_at=at)
        shown = freeze("extend", row.id, "--no-end", "--utc").stdout.splitlines()
        assert shown[1 : 1 + len(lines)] == lines
        listed = freeze("list").stdout.splitlines()
        assert listed[1].startswith(f"{row.id}  in_force  {column}  ")

    def test_freeze_is_shown_with_the_stop_that_holds_it(
        self, freeze: Command, acme: Tenant, web: WatchedBranch
    ) -> None:
        reading = factories.branch_enforcement(acme.session, web, stop="change-freeze/stop:1")
        written = factories.head_check(acme.session, web, "a" * 40, "success")
        at = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
        row = factories.freeze(acme.session, acme.organization, [web], blocked_at=at)
        held = freeze("extend", row.id, "--no-end", "--utc").stdout.splitlines()
        assert held[1] == "  enforced  by a stop since 2026-11-21 09:30 UTC, until all checks are written"
        assert freeze("list").stdout.splitlines()[1].startswith(f"{row.id}  in_force  by a stop  ")
        written.conclusion, reading.stop = "failure", None
        row.enforced_at = row.first_enforced_at = at + timedelta(minutes=1)
        acme.session.flush()
        [_, line, *_] = freeze("extend", row.id, "--no-end", "--utc").stdout.splitlines()
        assert line == "  enforced  yes, since 2026-11-21 09:31 UTC (by a stop since 2026-11-21 09:30 UTC)"

    def test_start_freezes_one_branch(self, freeze: Command, acme: Tenant, web: WatchedBranch) -> None:
        shown = freeze.json("start", "acme/web", "-b", "main", *REASON, "--until", "2099-01-04T09:00+01:00", "-y")
        assert (shown["scope"]["type"], shown["endsAt"]) == ("branch", "2099-01-04T08:00:00Z")

    def test_refused_start_names_the_code_and_what_is_wrong(self, freeze: Command) -> None:
        refused = freeze("start", "nothing/*", *REASON, "--yes")
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert "no_targets_in_scope" in refused.stderr

    def test_wrong_usage_sends_nothing(self, freeze: Command) -> None:
        cases: list[list[str]] = [
            ["start", *REASON],
            ["start", "--all", "acme/web", *REASON],
            ["start", "--all"],
            ["start", "--all", *REASON, "--until", "tomorrow"],
            ["start", "--all", *REASON, "--until", "2020-01-01"],
            ["extend", "frz_1", "--until", "2020-01-01T08:00Z"],
            ["start", "--all", *REASON, "--for", "2 hours"],
            ["start", "--all", *REASON, "--for", "2h", "--until", "2099-01-01"],
            ["extend", "frz_1"],
            ["lift", "frz_1", "--all"],
            ["state", "--branch", "main"],
            ["list", "--limit", "101"],
            ["thaw"],
        ]
        for arguments in cases:
            result = freeze(*arguments, FREEZE_URL="http://127.0.0.1:9")
            assert (result.exit_code, result.stdout, freeze.pauses) == (2, "", [])


class TestLift:
    def test_freeze_is_extended_and_lifted_once(self, freeze: Command, acme: Tenant, web: WatchedBranch) -> None:
        row = factories.freeze(acme.session, acme.organization, [web])
        extended = freeze("extend", row.id, "--until", "2099-01-04T08:00Z", "--utc")
        assert "until     2099-01-04 08:00 UTC" in extended.stdout
        assert freeze.json("extend", row.id, "--no-end")["endsAt"] is None
        assert freeze("lift", row.id, "-r", "Done").stdout.startswith(f"Lifted {row.id}")
        again = freeze("lift", row.id)
        assert (again.exit_code, again.stdout, again.stderr) == (0, "", "Nothing was frozen.\n")
        assert json.loads(freeze("lift", row.id, "--json").stdout)["error"]["code"] == "not_frozen"
        assert freeze("list").stdout == "No freezes.\n"
        assert row.id in freeze("list", "--ended").stdout

    def test_lift_of_a_scope_says_what_is_still_frozen(self, freeze: Command, acme: Tenant, web: WatchedBranch) -> None:
        assert freeze("lift", "acme/web").exit_code == 0
        all_of_it = freeze.json("start", "--all", *REASON, "-y")["id"]
        freeze.json("start", "acme/web", *REASON, "-y")
        lifted = freeze("lift", "acme/web")
        assert lifted.exit_code == 0
        assert f"1 branch is still frozen by {all_of_it}." in lifted.stdout
        refused = freeze("lift", "acme/web")
        assert (refused.exit_code, "invalid_state" in refused.stderr) == (1, True)

    def test_start_and_lift_of_one_name_the_freezes_beside_it(
        self, freeze: Command, acme: Tenant, web: WatchedBranch
    ) -> None:
        all_of_it = freeze.json("start", "--all", *REASON, "-y")["id"]
        started = freeze("start", "acme/web", *REASON, "-y")
        assert f"1 branch is already frozen by {all_of_it}.\n" in started.stdout
        lifted = freeze("lift", started.stdout.split()[0])
        assert f"1 branch is still frozen by {all_of_it}.\n" in lifted.stdout

    def test_lists_go_on_with_their_cursor(self, freeze: Command, acme: Tenant, web: WatchedBranch) -> None:
        made = {factories.freeze(acme.session, acme.organization, [web]).id for _ in range(2)}
        first = freeze("list", "--limit", "1")
        cursor = first.stderr.removeprefix("There are more: --cursor ").strip()
        second = freeze("list", "--limit", "1", "--cursor", cursor)
        assert {line.split()[0] for result in (first, second) for line in result.stdout.splitlines()[1:]} == made
        assert second.stderr == ""


class TestExceptions:
    def test_pull_request_is_explained_requested_and_decided(
        self, freeze: Command, acme: Tenant, web: WatchedBranch
    ) -> None:
        pull = factories.pull_request(acme.session, acme.session.get_one(Repository, web.repository_id))
        reference = f"acme/web#{pull.number}"
        row = factories.freeze(acme.session, acme.organization, [web], reason="Migration")
        explained = freeze("why", reference)
        what = "a freeze forbids it, and it is not known to be blocked\n  GitHub's rules were not read yet.\n"
        assert explained.stdout.startswith(f"{reference} into main: {what}")
        assert row.id in explained.stdout
        assert "Migration" in explained.stdout
        requested = freeze.json("allow", reference, "-r", "Hotfix of payments", "--request")["data"][0]["id"]
        assert requested in freeze("requests").stdout
        refused = freeze("approve", requested)
        assert (refused.exit_code, "insufficient_permission" in refused.stderr) == (1, True), refused.output
        other = factories.api_key(acme.session, acme.organization).secret
        denied = freeze("deny", requested, "-r", "Not now", FREEZE_KEY=other)
        assert (denied.exit_code, "denied" in denied.stdout) == (0, True), denied.output
        again = freeze.json("allow", reference, "-r", "Hotfix of payments", "--request", "--pin")["data"][0]["id"]
        granted = freeze("approve", again, FREEZE_KEY=other)
        assert (granted.exit_code, "granted" in granted.stdout) == (0, True), granted.output
        assert freeze("requests").stdout == "No requests.\n"


class TestViews:
    def test_preview_schedules_and_audit_are_shown(self, freeze: Command, acme: Tenant, web: WatchedBranch) -> None:
        covered = freeze("preview", "acme/*", "!acme/docs")
        assert covered.stdout.splitlines()[-1].split() == ["acme/web", "main"]
        schedule = factories.schedule(acme.session, acme.organization, name="Weekends")
        assert schedule.id in freeze("schedules", "list").stdout
        by_name, by_id = freeze("schedules", "show", "Weekends"), freeze("schedules", "show", schedule.id)
        assert by_name.stdout == by_id.stdout
        assert by_name.stdout.startswith(f"{schedule.id}  Weekends  on\n")
        assert freeze("schedules", "show", "Nothing").exit_code == 1
        started = freeze.json("start", "acme/web", *REASON, "-y")["id"]
        shown = freeze("audit", "--action", "freeze.started", "--target", started).stdout
        assert len(shown.splitlines()) == 2
        assert "freeze.started" in shown

    def test_doctor_names_what_does_not_block(self, freeze: Command, acme: Tenant, web: WatchedBranch) -> None:
        result = freeze("doctor")
        assert result.exit_code == 1
        assert "acme/web:main" in result.stdout
        assert f"signed in    {acme.organization.name}" in result.stdout
        limited = factories.api_key(acme.session, acme.organization, "freeze:read").secret
        assert "insufficient_scope" in freeze("doctor", FREEZE_KEY=limited).output


class TestSignIn:
    @pytest.fixture
    def person(self, freeze: Command, http: httpx.Client, acme: Tenant) -> Caller:
        """Return a member who is asked to approve, without a key in the environment."""
        user = factories.member(acme.session, acme.organization)
        freeze.environment["FREEZE_KEY"] = None
        return signed_in(acme.session, http, user, acme.organization)

    def test_person_signs_in_and_out(
        self, freeze: Command, person: Caller, session: Session, web: WatchedBranch, redis: Redis
    ) -> None:
        freeze.while_waiting = partial(decide_shown, person, "approve")
        result = freeze("login")
        assert (result.exit_code, result.stdout, freeze.pauses) == (0, "", [5]), result.output
        file = freeze.store.directory / "credentials.json"
        [token] = json.loads(file.read_text())["tokens"].values()
        assert token not in result.output
        assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (0o600, 0o700)
        assert freeze("state", "acme/web", FREEZE_URL=None).exit_code == 0
        elsewhere = freeze("state", "acme/web", FREEZE_URL="http://localhost:9")
        assert (elsewhere.exit_code, "You are not signed in" in elsewhere.stderr) == (1, True)
        assert freeze("logout").exit_code == 0
        assert json.loads(file.read_text())["tokens"] == {}
        session.expire_all()
        assert [one.revoked_at is None for one in session.query(LoginSession).filter_by(kind="device")] == [False]
        assert "You are not signed in" in freeze("logout").stderr

    def test_denied_sign_in_keeps_nothing(self, freeze: Command, person: Caller, redis: Redis) -> None:
        freeze.while_waiting = partial(decide_shown, person, "deny")
        result = freeze("login")
        assert (result.exit_code, "denied" in result.stderr) == (1, True)
        assert not freeze.store.directory.exists()

    def test_ended_sign_in_says_so(self, freeze: Command, person: Caller, served: str) -> None:
        freeze.store.save(served, "svc_session_" + "x" * 43)
        result = freeze("list")
        assert (result.exit_code, "Run `freeze login`" in result.stderr) == (1, True)


@pytest.mark.check
def test_installed_command_asks_the_service(freeze: Command, acme: Tenant, web: WatchedBranch, tmp_path: Path) -> None:
    pytest.importorskip("flit_core", reason="the package of the command is built with flit_core")
    target = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--no-build-isolation", "--target", target, copied(tmp_path)], check=True, timeout=120)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(target), "HOME": str(tmp_path)}
    environment |= {name: value for name, value in freeze.environment.items() if value is not None}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(target / "bin" / "freeze"), *arguments]
        return subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
        )

    assert run("--version").stdout == "freeze, version 0.1.0\n"
    assert run("state", "acme/web", "--exit-code").returncode == 0
    started = run("start", "--all", *REASON, "--yes", "--json")
    assert started.returncode == 0, started.stderr
    assert json.loads(started.stdout)["state"] == "in_force"
    assert run("state", "acme/web", "--exit-code").returncode == 1


def copied(directory: Path) -> Path:
    """Return a copy of the distribution, so that nothing is built among its sources."""
    source = Path(__file__).parents[2] / "cli"
    return Path(shutil.copytree(source, directory / "source", ignore=shutil.ignore_patterns("__pycache__")))
