"""`python -m app github-app`: register the GitHub App from a manifest, and write its settings into files.

It serves one page on the loopback, at an address with a one-time token, and ends when GitHub has given the App. It
needs neither a database nor the other settings, so it can run on the machine of the operator, where the browser is.
"""

import argparse
import hmac
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import orjson

from app.commands.command_line import argument, parser_of, say
from app.config import Config
from app.variable_parsers import number, url, web_origin
from integrations.github.app_manifest import ManifestError, RegisteredApp, exchange_code
from rules.rulesets.app_permissions import manifest_of
from rules.web_addresses import ENFORCEMENT_AUTHORIZED

_EPILOG = """\
  python -m app github-app --web-url https://freeze.example.com --organization acme

Open the address that it prints, and press the button; at GitHub press the button too. The command then writes
github-app.env, to append to the environment of the service, and github-app.pem, the private key, both readable by you
alone, and lists what is left to do. BASE_URL, WEB_URL, GITHUB_API_URL and GITHUB_WEB_URL are read from the environment
if they are set. On a server without a browser, forward the port: ssh -L 8765:127.0.0.1:8765 server.

It ends with 1 if the files exist, and with 2 if an argument is not valid. Ctrl-C ends it without an App."""
_DEFAULTS: dict[str, Any] = {each.name: each.default for each in fields(Config)}
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
_PAGE = Template("""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>$title</title>
<h1>$title</h1>
$content
</html>
""")
_FORM = Template("""<p>GitHub will show the name of the App, which can be changed there, and a button. It sets:</p>
<ul>$facts</ul>
<form method="post" action="$action"><input type="hidden" name="manifest" value="$manifest">
<button type="submit">Register the App at GitHub</button></form>
<h2>What is left to do afterwards</h2>
<ul>$left</ul>""")


@dataclass(frozen=True, slots=True)
class Registration:
    """The App that is to be registered: its name and rights, the addresses of both sides, and where its settings go."""

    name: str
    base_url: str
    web_url: str
    api_url: str
    github_url: str
    organization: str | None
    public: bool
    writes_rulesets: bool
    directory: Path

    @property
    def form_url(self) -> str:
        """The page of GitHub that takes the manifest."""
        owner = f"/organizations/{quote(self.organization, safe='')}" if self.organization else ""
        return f"{self.github_url}{owner}/settings/apps/new"

    @property
    def remaining_steps(self) -> list[str]:
        """What a manifest cannot set, in the order in which it is done."""
        settings = (
            "Put the settings into the environment of every process, and the key where only the service can read it"
        )
        oauth = (
            f"Register an OAuth App at {self.github_url}, for which GitHub has no manifest, with the callback address"
        )
        return [
            f"{settings} (GITHUB_APP_PRIVATE_KEY_FILE names it). Restart.",
            f"{oauth} {self.web_url}{ENFORCEMENT_AUTHORIZED}. Set GITHUB_CLIENT_ID and GITHUB_CLIENT_SECRET.",
            f"Have {self.base_url} reachable by GitHub, with a name in DNS and a certificate.",
            "Set up mail (SMTP_URL, MAIL_FROM), and if wanted Stripe and Slack: docs/operations.md.",
            "Run `python -m app doctor`. Then sign in, choose Connect GitHub, and install the App.",
        ]


class RegistrationServer(ThreadingHTTPServer):
    """Serves the page until the App is registered."""

    daemon_threads = False
    timeout = 0.2

    def __init__(self, registration: Registration, files: "SettingsFiles", port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.registration, self.files = registration, files
        self.token, self.state = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self.app: RegisteredApp | None = None

    @property
    def origin(self) -> str:
        """The origin of the page."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def address(self) -> str:
        """The address to open."""
        return f"{self.origin}/{self.token}"

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest that the page sends."""
        return manifest_of(
            self.registration.name,
            base_url=self.registration.base_url,
            web_url=self.registration.web_url,
            redirect_url=f"{self.address}/registered",
            public=self.registration.public,
            writes_rulesets=self.registration.writes_rulesets,
        )

    def serve_until_registered(self) -> RegisteredApp:
        """Answer requests until GitHub has given the App, and return it."""
        while self.app is None:
            self.handle_request()
        return self.app

    def answer(self, target: str, host: str) -> tuple[int, str, str]:
        """Return status, title and content of the page at an address; another site cannot know the token."""
        parts = urlsplit(target)
        token, _, step = parts.path.removeprefix("/").partition("/")
        known = hmac.compare_digest(token.encode(), self.token.encode())
        if not known or host != urlsplit(self.origin).netloc or step not in {"", "registered"}:
            return 404, "Not found", "<p>Open the address that the command has printed.</p>"
        return self._registered(parse_qs(parts.query)) if step else (200, "Register the GitHub App", self._form())

    def _form(self) -> str:
        manifest = self.manifest
        facts = [
            f"webhooks to {manifest['hook_attributes']['url']}, with a secret",
            f"people return to {manifest['callback_urls'][0]} after the installation, and authorise it there",
            "permissions: " + ", ".join(f"{name} ({level})" for name, level in manifest["default_permissions"].items()),
            "events: " + ", ".join(manifest["default_events"]),
            "installable by every account" if self.registration.public else "installable by its owner alone",
        ]
        return _FORM.substitute(
            facts=_items(facts),
            action=escape(f"{self.registration.form_url}?state={self.state}"),
            manifest=escape(orjson.dumps(manifest).decode()),
            left=_items(self.registration.remaining_steps),
        )

    def _registered(self, query: Mapping[str, list[str]]) -> tuple[int, str, str]:
        """Exchange the code that GitHub has sent, and write the settings."""
        given = {name: values[0] for name, values in query.items()}
        if not hmac.compare_digest(given.get("state", "").encode(), self.state.encode()) or not given.get("code"):
            return 400, "This is not the answer to our request", f'<p><a href="{self.address}">Begin again</a></p>'
        try:
            app = exchange_code(self.registration.api_url, given["code"])
        except ManifestError as error:
            content = f'<p>{escape(str(error))}.</p><p><a href="{self.address}">Begin again</a></p>'
            return 502, "The App could not be read", content
        self.files.write(app, self.registration)
        self.app = app
        content = f"<p>Its settings are in {escape(str(self.files.settings))}.</p><h2>What is left to do</h2><ul>"
        return (
            200,
            f"The App {escape(app.slug)} is registered",
            f"{content}{_items(self.registration.remaining_steps)}</ul>",
        )


class _Handler(BaseHTTPRequestHandler):
    server: RegistrationServer
    timeout = 5  # browsers keep connections on which they send nothing

    def do_GET(self) -> None:
        """Answer a request with a page."""
        status, title, content = self.server.answer(self.path, self.headers.get("Host", ""))
        body = _PAGE.substitute(title=title, content=content).encode()
        self.send_response(status)
        policy = f"default-src 'none'; form-action 'self' {self.server.registration.github_url}; frame-ancestors 'none'"
        for name, value in {**_HEADERS, "Content-Security-Policy": policy, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing: addresses hold the token and the code."""


class SettingsFiles:
    """Two files that only their owner can read. They are made first, so that nothing that GitHub gives is lost."""

    def __init__(self, directory: Path) -> None:
        self.settings, self.key = directory / "github-app.env", directory / "github-app.pem"
        for made, file in enumerate((self.settings, self.key)):
            try:
                os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            except OSError:
                if made:
                    self.settings.unlink()
                raise

    def write(self, app: RegisteredApp, registration: Registration) -> None:
        """Write the private key and the settings."""
        self.key.write_text(app.private_key)
        settings = {
            "GITHUB_APP_ID": app.id,
            "GITHUB_APP_SLUG": app.slug,
            "GITHUB_APP_PRIVATE_KEY_FILE": self.key.resolve(),
            "GITHUB_WEBHOOK_SECRET": app.webhook_secret,
            "GITHUB_APP_CLIENT_ID": app.client_id,
            "GITHUB_APP_CLIENT_SECRET": app.client_secret,
            "GITHUB_API_URL": registration.api_url,
            "GITHUB_WEB_URL": registration.github_url,
        }
        self.settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def remove(self) -> None:
        """Remove both files."""
        self.settings.unlink()
        self.key.unlink()


def _items(lines: Sequence[str]) -> str:
    return "".join(f"<li>{escape(line)}</li>" for line in lines)


def read_arguments(given: Sequence[str]) -> argparse.Namespace:
    """Read the command line; end the process with 2 if it is not valid."""
    environment, http, port = os.environ, argument(url("http", "https")), argument(number(0, 65535))
    parser = parser_of("github-app", "Register the GitHub App, with everything that it needs, from one page.", _EPILOG)
    parser.add_argument(
        "--web-url",
        type=argument(web_origin),
        default=environment.get("WEB_URL"),
        help="origin of the web pages (WEB_URL)",
    )
    parser.add_argument("--base-url", type=http, default=environment.get("BASE_URL"), help="URL of the API (BASE_URL)")
    parser.add_argument("--organization", help="organisation at GitHub that will own the App (default: you)")
    parser.add_argument("--name", default="Change Freeze", help="name of the App, unique at GitHub")
    parser.add_argument("--public", action="store_true", help="let other accounts than the owner install it")
    parser.add_argument(
        "--without-administration",
        action="store_true",
        help="do not let it write rulesets: an administrator authorises each setup",
    )
    parser.add_argument("--directory", type=Path, default=Path(), help="where the two files go (default: here)")
    parser.add_argument("--port", type=port, default=8765, help="port of the page (default: 8765; 0: any)")
    found = parser.parse_args(given)
    if not found.web_url:
        parser.error("--web-url or WEB_URL is required")
    return found


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    given = read_arguments(arguments)
    registration = Registration(
        given.name,
        given.base_url or given.web_url,
        given.web_url,
        os.environ.get("GITHUB_API_URL", _DEFAULTS["github_api_url"]).rstrip("/"),
        os.environ.get("GITHUB_WEB_URL", _DEFAULTS["github_web_url"]).rstrip("/"),
        given.organization,
        given.public,
        not given.without_administration,
        given.directory,
    )
    try:
        files = SettingsFiles(registration.directory)
    except OSError as error:
        say(f"Nothing was registered: {error.strerror}: {error.filename}")
        return 1
    try:
        with RegistrationServer(registration, files, given.port) as server:
            say("Open this address in a browser on this machine; it is valid until the App is registered:")
            print(server.address, flush=True)
            app = server.serve_until_registered()
    except KeyboardInterrupt:
        files.remove()
        say("Nothing was registered.")
        return 1
    except OSError as error:
        files.remove()
        say(f"Nothing was registered: {error.strerror} (--port)")
        return 1
    say(f"The App {app.slug} is registered: {app.html_url}")
    say(f"Its settings are in {files.settings}, its private key in {files.key}. What is left to do:")
    for line in registration.remaining_steps:
        say(f"- {line}")
    return 0
