"""The command that registers the GitHub App: from its page, at the simulated GitHub, to settings that work."""

import stat
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode

import httpx
import orjson
import pytest
from sqlalchemy.orm import Session

from app.commands import doctor, github_app
from app.commands.github_app import Registration, RegistrationServer, SettingsFiles, main
from app.config import load_config
from rules.rulesets.app_permissions import EVENTS, EVENTS_FOR_RULES, missing_permissions
from tests.harness.concurrency import Task, results_of
from tools.fake_github import FakeGitHub, Handle
from tools.fake_github.oauth import CLIENT_ID, CLIENT_SECRET

WEB = "https://freeze.example.com"


class Form(HTMLParser):
    """The form of the page, and its words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.action, self.fields, self.words = "", dict[str, str](), ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.action = given["action"]
        elif tag == "input":
            self.fields[given["name"]] = given["value"]

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture
def github(fake_github_server: Handle) -> FakeGitHub:
    fake_github_server.replace(FakeGitHub())
    return fake_github_server.github


@pytest.fixture
def registration(github: FakeGitHub, tmp_path: Path) -> Registration:
    url = github.base_url
    return Registration(
        "Acme Freezes", WEB, WEB, url, url, "acme", public=False, writes_rulesets=True, directory=tmp_path
    )


@pytest.fixture
def server(registration: Registration) -> Iterator[RegistrationServer]:
    with RegistrationServer(registration, SettingsFiles(registration.directory), 0) as server:
        yield server


def press(server: RegistrationServer, page: str) -> tuple[int, str, str]:
    """Press the button of the page, and return the answer to what GitHub sends back."""
    form = Form(page)
    answer = httpx.post(form.action, data=form.fields)
    assert answer.status_code == 302, answer.text
    return server.answer(answer.headers["location"].removeprefix(server.origin), host_of(server))


def host_of(server: RegistrationServer) -> str:
    return server.origin.removeprefix("http://")


def opened(server: RegistrationServer) -> str:
    return server.answer(f"/{server.token}", host_of(server))[2]


def test_settings_of_the_registered_app_satisfy_the_doctor(
    session: Session, server: RegistrationServer, github: FakeGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = Task(server.serve_until_registered)
    with httpx.Client(follow_redirects=True) as browser:
        page = browser.get(server.address)
        assert page.headers["Referrer-Policy"] == "no-referrer"
        form = Form(page.text)
        registered = browser.post(form.action, data=form.fields)
    [app] = results_of([serving])
    assert (registered.status_code, app.slug) == (200, "acme-freezes")
    for file in (server.files.settings, server.files.key):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not any(secret in registered.text for secret in github.oauth.issued), "secrets are in the files alone"
    for line in server.files.settings.read_text().splitlines():
        monkeypatch.setenv(*line.split("=", 1))
    for name, value in {"BASE_URL": WEB, "WEB_URL": WEB}.items():
        monkeypatch.setenv(name, value)
    [missing] = [each.text for each in doctor.check_github(load_config()) if each.state != "ok"]
    assert missing.startswith("the OAuth App is not configured"), "which the page has named"
    monkeypatch.setenv("GITHUB_CLIENT_ID", CLIENT_ID)
    monkeypatch.setenv("GITHUB_CLIENT_SECRET", CLIENT_SECRET)
    assert {each.state for each in doctor.check_github(load_config())} == {"ok"}


def test_page_says_what_is_set_and_what_is_left(server: RegistrationServer) -> None:
    words = Form(opened(server)).words
    for each in (
        "webhooks/github",
        "checks (write)",
        "merge_group",
        "OAuth App",
        f"{WEB}/enforcement/authorized",
        "DNS",
    ):
        assert each in words
    assert all(each in words for each in ("SMTP_URL", "Slack", "doctor"))


def test_manifest_requests_what_the_doctor_checks(server: RegistrationServer, registration: Registration) -> None:
    form = Form(opened(server))
    manifest = orjson.loads(form.fields["manifest"])
    assert form.action.startswith(f"{registration.github_url}/organizations/acme/settings/apps/new?state=")
    assert missing_permissions(manifest["default_permissions"]) == []
    assert manifest["default_events"] == sorted((*EVENTS, *EVENTS_FOR_RULES))
    assert manifest["callback_urls"] == [f"{WEB}/installed"]


@pytest.mark.parametrize("path", ["/", "/wrong", "/wrong/registered", "/{token}/other"])
def test_page_exists_at_its_address_alone(server: RegistrationServer, path: str) -> None:
    assert server.answer(path.format(token=server.token), host_of(server))[0] == 404


def test_page_is_not_served_under_another_host(server: RegistrationServer) -> None:
    assert server.answer(f"/{server.token}", "evil.example")[0] == 404


def test_answer_with_another_state_or_no_code_is_refused(server: RegistrationServer) -> None:
    for query in ({"code": "c", "state": "other"}, {"code": "c"}, {"state": server.state}):
        answer = server.answer(f"/{server.token}/registered?{urlencode(query)}", host_of(server))
        assert answer[0] == 400
    assert server.app is None


def test_code_that_github_does_not_know_can_be_tried_again(server: RegistrationServer) -> None:
    query = urlencode({"code": "unknown", "state": server.state})
    status, _, content = server.answer(f"/{server.token}/registered?{query}", host_of(server))
    assert (status, "Begin again" in content) == (502, True)
    assert press(server, opened(server))[0] == 200


def test_registration_is_refused_when_a_file_exists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "github-app.pem").write_text("the key of another App")
    assert main(["--web-url", WEB, "--directory", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"Nothing was registered: File exists: {tmp_path}/github-app.pem\n"
    assert [file.name for file in tmp_path.iterdir()] == ["github-app.pem"]


def test_interrupted_registration_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: RegistrationServer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(github_app.RegistrationServer, "serve_until_registered", interrupt)
    assert main(["--web-url", WEB, "--directory", str(tmp_path), "--port", "0"]) == 1
    assert capsys.readouterr().out.startswith("http://127.0.0.1:")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "text", "reason"),
    [
        ("--web-url", "freeze.example.com", "must be an https URL, or an http URL of this machine"),
        ("--base-url", "freeze.example.com", "must be a URL of http or https"),
        ("--port", "http", "must be a whole number from 0 to 65535"),
    ],
)
def test_github_app_says_what_an_argument_must_be(
    capsys: pytest.CaptureFixture[str], option: str, text: str, reason: str
) -> None:
    with pytest.raises(SystemExit):
        main([option, text])
    assert f"argument {option}: {reason}" in capsys.readouterr().err
