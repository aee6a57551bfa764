"""What the command `freeze` makes of answers that no service of today gives, and of none."""

import json
import socket
import sys
import tomllib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from change_freeze_cli import api
from change_freeze_cli.commands import main
from change_freeze_cli.credentials import Store
from change_freeze_cli.session import Session
from tests.harness.servers import in_thread

KEY = "svc_live_a_secret_of_the_tests"
OPEN = {"frozen": False, "coverage": "none", "subject": {"name": "acme"}}
FREEZE = {"id": "frz_1", "state": "thawing", "reason": "Release", "startedAt": "soon", "targets": {"total": 1}}
CLI = "cli/pyproject.toml"
Reply = tuple[int, dict[str, str], bytes]


def refused(status: int, code: str, kind: str = "conflict", **headers: str) -> Reply:
    details = [{"path": "/scope", "message": "Odd\x07"}]
    error = {"type": kind, "code": code, "message": "No\x1b[31m.\nNo", "requestId": "req_1", "details": details}
    return status, headers, json.dumps({"error": error}).encode()


def success(body: Any, status: int = 200) -> Reply:
    return status, {}, json.dumps(body).encode()


@dataclass
class Service:
    """Answers requests with these replies, the last of them for ever; None closes the connection."""

    replies: list[Reply | None] = field(default_factory=list)
    seen: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def service() -> Iterator[Service]:
    found = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            found.seen.append((self.command, self.path, {name.lower(): one for name, one in self.headers.items()}))
            reply = found.replies.pop(0) if len(found.replies) > 1 else found.replies[0]
            if reply is None:
                self.close_connection = True
                return
            self.send_response(reply[0])
            for name, value in {"Content_Length": str(len(reply[2])), **reply[1]}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(reply[2])

        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    with in_thread(HTTPServer(("127.0.0.1", 0), Handler)) as port:
        found.url = f"http://127.0.0.1:{port}"
        yield found


@dataclass
class Command:
    """Runs the command against the scripted service."""

    service: Service
    store: Store
    pauses: list[float] = field(default_factory=list)

    def __call__(self, *arguments: str, replies: list[Reply | None] | None = None, **environment: str) -> Result:
        self.service.replies = replies or [success(OPEN)]
        session = Session(sleep=self.pauses.append, store=self.store)
        given: dict[str, str | None] = {"FREEZE_URL": self.service.url, "FREEZE_KEY": KEY, **environment}
        return CliRunner().invoke(main, arguments, env=given, obj=session)


@pytest.fixture
def freeze(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setitem(sys.modules, "keyring", None)
    return Command(service, Store(tmp_path / "config"))


class TestRepeats:
    def test_write_is_repeated_with_its_key_as_the_service_says(self, freeze: Command, service: Service) -> None:
        replies: list[Reply | None] = [
            refused(503, "database_unavailable", "unavailable", Retry_After="7"),
            None,
            (502, {}, b"<html>"),
            success(FREEZE),
        ]
        result = freeze("lift", "frz_1", replies=replies)
        assert (result.exit_code, freeze.pauses) == (0, [7, 2, 4]), result.output
        assert len({headers["idempotency-key"] for _, _, headers in service.seen}) == 1
        freeze("lift", "frz_1", replies=[success(FREEZE)])
        assert len({headers["idempotency-key"] for _, _, headers in service.seen}) == 2

    def test_command_gives_up_after_four_tries(self, freeze: Command, service: Service) -> None:
        result = freeze("state", "--exit-code", replies=[refused(429, "rate_limited", "rate_limited")])
        assert (result.exit_code, result.stdout, len(service.seen)) == (3, "", 4)
        assert "rate_limited" in result.stderr

    def test_command_does_not_wait_longer_than_a_minute(self, freeze: Command, service: Service) -> None:
        for value in ("61", "Fri, 31 Dec 2099 23:59:59 GMT", "Fri, 31 Dec 2099 23:59:59 -0000"):
            result = freeze("list", replies=[refused(429, "rate_limited", "rate_limited", Retry_After=value)])
            assert (result.exit_code, freeze.pauses) == (3, [])

    @pytest.mark.parametrize("status", [400, 404, 409, 500])
    def test_other_errors_are_not_repeated(self, freeze: Command, service: Service, status: int) -> None:
        result = freeze("lift", "frz_1", replies=[refused(status, "made_up_later", "of_a_new_type")])
        assert (result.exit_code, len(service.seen)) == (3 if status == 500 else 1, 1)
        assert "of_a_new_type: made_up_later" in result.stderr

    def test_unreachable_service_ends_the_gate_with_3(self, freeze: Command) -> None:
        with closing(socket.socket()) as unused:
            unused.bind(("127.0.0.1", 0))
            result = freeze("state", "--exit-code", FREEZE_URL=f"http://127.0.0.1:{unused.getsockname()[1]}")
        assert (result.exit_code, result.stdout, len(freeze.pauses)) == (3, "", 3)
        assert "cannot be reached" in result.stderr


class TestAnswers:
    @pytest.mark.parametrize(
        "reply",
        [
            (200, {}, b"<html>Sign in to the network</html>"),
            (200, {}, b""),
            (204, {}, b""),
            (200, {}, b"[]"),
            success({"frozen": "false"}),
            success({"frozen": None}),
            (200, {}, b'{"frozen": true}{"frozen": false}'),
            (200, {}, b'{"frozen": true, "frozen": false}'),
            (200, {}, b'{"frozen": false, "freezes": [{'),
            (200, {"Content_Length": "400"}, b'{"frozen": false}'),
            success({"frozen": False}, 206),
            (302, {"Location": "https://elsewhere.example/"}, b""),
            (500, {}, b'{"error": "no"}'),
        ],
    )
    def test_malformed_answer_is_no_open_gate(self, freeze: Command, service: Service, reply: Reply) -> None:
        result = freeze("state", "--exit-code", replies=[reply])
        assert (result.exit_code, result.stdout, len(service.seen)) == (3, "", 1)

    def test_redirect_does_not_take_the_key_away(self, freeze: Command, service: Service) -> None:
        replies: list[Reply | None] = [(307, {"Location": f"{service.url}/taken"}, b""), success(OPEN)]
        assert freeze("state", "--exit-code", replies=replies).exit_code == 3
        assert [path for _, path, _ in service.seen] == ["/v1/freeze-state?organization=current"]

    def test_answer_that_is_too_long_is_no_open_gate(self, freeze: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(api, "MAX_ANSWER_BYTES", 10)
        assert freeze("state", "--exit-code").exit_code == 3

    def test_new_values_and_missing_fields_are_shown_as_they_are(self, freeze: Command) -> None:
        odd = {**FREEZE, "scope": {"type": "galaxy"}, "newField": 1}
        shown = freeze("list", replies=[success({"data": [odd, {}, 7], "nextCursor": None})]).stdout.splitlines()
        assert shown[1].split() == ["frz_1", "thawing", "-", "galaxy", "Release", "soon", "until", "lifted", "-"]
        lists = (["list"], ["requests"], ["audit"], ["targets", "frz_1"], ["schedules", "list"])
        for command in (*lists, ["schedules", "occurrences"], ["why", "7"], ["preview", "a/b"]):
            assert freeze(*command, replies=[success({})]).exit_code == 0, command

    def test_scope_without_names_is_shown_by_its_id(self, freeze: Command) -> None:
        former = {**FREEZE, "scope": {"type": "branch", "branchId": "wbr_1"}}
        shown = freeze("list", replies=[success({"data": [former], "nextCursor": None})]).stdout
        assert shown.splitlines()[1].split()[3] == "wbr_1"

    def test_errors_are_harmless_for_the_terminal(self, freeze: Command) -> None:
        result = freeze("lift", "frz_1", replies=[refused(409, "made_up_later")])
        assert r"freeze: No\x1b[31m. No (conflict: made_up_later, req_1)" in result.stderr
        assert r"/scope: Odd\x07" in result.stderr
        assert all(line.isprintable() for line in result.stderr.split("\n"))

    def test_ids_stay_inside_their_part_of_the_path(self, freeze: Command, service: Service) -> None:
        freeze("extend", "../me?x=1", "--no-end", replies=[success(FREEZE)])
        assert service.seen[-1][1] == "/v1/freezes/..%2Fme%3Fx%3D1/extend"


class TestUsage:
    @pytest.mark.parametrize("group", [[], ["schedules"]])
    def test_help_shows_whole_sentences(self, freeze: Command, service: Service, group: list[str]) -> None:
        shown = freeze(*group, "--help").stdout
        assert "..." not in shown.partition("Commands:")[2]
        assert service.seen == []

    def test_printing_options_stand_before_and_after_the_command(self, freeze: Command) -> None:
        found = {"data": [{**FREEZE, "startedAt": "2026-11-21T09:30:00Z"}], "nextCursor": None}
        replies: list[Reply | None] = [success(found)]
        for given in (["--json", "list"], ["list", "--json"], ["schedules", "--json", "list"]):
            assert json.loads(freeze(*given, replies=[*replies]).stdout) == found
        assert freeze("--utc", "list", replies=[*replies]).stdout == freeze("list", "--utc", replies=[*replies]).stdout
        assert "2026-11-21 09:30 UTC" in freeze("--utc", "list", replies=[*replies]).stdout

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_completion_prints_the_script_of_a_shell(self, freeze: Command, service: Service, shell: str) -> None:
        script = freeze("completion", shell)
        assert (script.exit_code, f"_FREEZE_COMPLETE={shell}_complete" in script.stdout) == (0, True)
        assert service.seen == []

    @pytest.mark.parametrize(
        "command", [["start", "--all", "-r", "Release"], ["extend", "frz_1"], ["approve", "exr_1"]]
    )
    def test_end_that_is_over_is_refused_before_anything_is_asked(
        self, freeze: Command, service: Service, command: list[str]
    ) -> None:
        result = freeze(*command, "--until", "2020-01-01")
        assert (result.exit_code, service.seen, "This time is over." in result.stderr) == (2, [], True)
        assert freeze("audit", "--to", "2020-01-01", replies=[success({})]).exit_code == 0


class TestSecrets:
    @pytest.mark.parametrize(
        "url", ["http://freeze.example.com", "ftp://127.0.0.1", "https://me:secret@127.0.0.1", "https://", "127.0.0.1"]
    )
    def test_key_goes_to_no_address_that_is_not_safe(self, freeze: Command, service: Service, url: str) -> None:
        result = freeze("list", FREEZE_URL=url)
        assert (result.exit_code, service.seen, "secret" in result.stderr) == (2, [], False)

    @pytest.mark.parametrize("key", ["svc_live_secret\nX: y", "svc_live_secret ü", "svc_live_secret b"])
    def test_broken_key_is_refused_without_being_shown(self, freeze: Command, service: Service, key: str) -> None:
        result = freeze("list", FREEZE_KEY=key)
        assert (result.exit_code, service.seen, "svc_live" in result.output) == (2, [], False)

    def test_key_takes_precedence_over_a_sign_in_and_is_never_shown(self, freeze: Command, service: Service) -> None:
        freeze.store.save(service.url, "svc_session_kept")
        for replies in ([success(OPEN)], [refused(401, "invalid_token", "unauthorized")], [None]):
            result = freeze("state", replies=[*replies], FREEZE_KEY=f" {KEY}\n")
            assert KEY not in result.output + repr(result.exception)
        assert {headers["authorization"] for _, _, headers in service.seen} == {f"Bearer {KEY}"}
        assert KEY not in repr(api.Api("https://freeze.example.com", KEY))

    def test_command_without_an_address_or_a_sign_in_says_what_to_do(self, freeze: Command, service: Service) -> None:
        without = freeze("list", FREEZE_URL="")
        assert (without.exit_code, "FREEZE_URL" in without.stderr) == (2, True)
        unsigned = freeze("list", FREEZE_KEY="")
        assert (unsigned.exit_code, "freeze login" in unsigned.stderr, service.seen) == (1, True, [])


class TestStore:
    URL = "https://freeze.example.com"

    def keyring(self, monkeypatch: pytest.MonkeyPatch, *, broken: bool = False) -> dict[tuple[str, str], str]:
        """Install a keyring, and return what it keeps."""

        class KeyringError(Exception):
            pass

        kept: dict[tuple[str, str], str] = {}

        def guarded(function: Any) -> Any:
            def called(*arguments: str) -> Any:
                if broken:
                    raise KeyringError
                return function(*arguments)

            return called

        library = SimpleNamespace(
            errors=SimpleNamespace(KeyringError=KeyringError),
            get_password=guarded(lambda service, name: kept.get((service, name))),
            set_password=guarded(lambda service, name, value: kept.update({(service, name): value})),
            delete_password=guarded(lambda service, name: kept.pop((service, name))),
        )
        monkeypatch.setitem(sys.modules, "keyring", library)
        return kept

    def test_keyring_keeps_the_token_and_no_file_does(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "keyring", None)
        store = Store(tmp_path)
        assert store.save(self.URL, "first") == "file"
        kept = self.keyring(monkeypatch)
        assert store.save(self.URL, "second") == "keyring"
        assert [*kept.values()] == ["second"]
        assert (store.token(self.URL), store.url) == ("second", self.URL)
        assert json.loads((tmp_path / "credentials.json").read_text()) == {"url": self.URL, "tokens": {}}
        store.forget(self.URL)
        assert (store.token(self.URL), kept) == (None, {})

    def test_file_keeps_the_token_where_the_keyring_fails(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.keyring(monkeypatch, broken=True)
        store = Store(tmp_path / "config")
        assert (store.save(self.URL, "token"), store.token(self.URL)) == ("file", "token")
        assert store.token("https://other.example.com") is None
        store.forget(self.URL)
        assert store.token(self.URL) is None

    @pytest.mark.parametrize("content", ["", "[]", '{"tokens": 1, "url": 2}', "\x00"])
    def test_broken_credentials_file_counts_as_missing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
    ) -> None:
        monkeypatch.setitem(sys.modules, "keyring", None)
        (tmp_path / "credentials.json").write_text(content)
        store = Store(tmp_path)
        assert (store.url, store.token(self.URL)) == (None, None)


@pytest.mark.parametrize(
    ("codes", "pauses", "status"),
    [
        (["authorization_pending", "slow_down", "expired_token"], [2, 2, 7], 1),
        (["authorization_pending"], [2] * 4, 1),
        (["made_up_later"], [2], 3),
    ],
)
def test_sign_in_waits_as_the_service_says(freeze: Command, codes: list[str], pauses: list[int], status: int) -> None:
    begun = {"device_code": "d", "user_code": "A-B", "verification_uri": "u", "interval": 2, "expires_in": 6}
    replies = [success(begun), *(success({"error": code}, 400) for code in codes)]
    result = freeze("login", replies=[*replies])
    assert (result.exit_code, freeze.pauses) == (status, pauses), result.output
    assert not freeze.store.directory.exists()


def test_cli_is_tested_with_the_click_that_it_needs() -> None:
    root = Path(__file__).parents[2]
    needed, tested = (tomllib.loads((root / name).read_text())["project"] for name in (CLI, "pyproject.toml"))
    assert set(needed["dependencies"]) <= set(tested["optional-dependencies"]["dev"])
