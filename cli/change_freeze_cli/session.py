"""One run of the command: its settings, whom it acts for, and where its output goes."""

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import click

from change_freeze_cli.api import Answer, Api, checked_secret, checked_url
from change_freeze_cli.credentials import Store
from change_freeze_cli.errors import RefusedError
from change_freeze_cli.text import plain, plain_json, time_of


@dataclass(slots=True)
class Session:
    """What every command of a run shares."""

    as_json: bool = False
    utc: bool = False
    sleep: Callable[[float], None] = time.sleep
    store: Store = field(default_factory=lambda: Store(Path(click.get_app_dir("freeze"))))

    def url(self, given: str | None = None) -> str:
        """Return the address of the service: the given one, that of FREEZE_URL, or that of the last sign-in."""
        found = given or os.environ.get("FREEZE_URL") or self.store.url
        if not found:
            raise click.UsageError("Set FREEZE_URL to the address of the service, or sign in: freeze login --url …")
        return checked_url(found)

    def unsigned_api(self, url: str | None = None) -> Api:
        """Return the API without a credential."""
        return Api(self.url(url), sleep=self.sleep)

    def api(self) -> Api:
        """Return the API with the key of FREEZE_KEY, or else with an access token of the person who is signed in."""
        api = self.unsigned_api()
        key = os.environ.get("FREEZE_KEY")
        if key:
            api.token = checked_secret(key, "FREEZE_KEY")
            return api
        session_token = self.store.token(api.url)
        if session_token is None:
            raise RefusedError(f"You are not signed in at {api.url}. Run `freeze login`, or set FREEZE_KEY.")
        try:
            minted = Api(api.url, session_token, self.sleep).get("/api/auth/token").json
        except RefusedError as error:
            if error.code in {"invalid_token", "token_expired", "missing_credentials"}:
                raise RefusedError("The sign-in has ended. Run `freeze login`.", code=error.code) from None
            raise
        api.token = checked_secret(str(minted.get("token")), "The access token")
        return api

    def time(self, value: object) -> str:
        """Return a time of the API as this run shows it."""
        return time_of(value, utc=self.utc)

    def show(self, answer: Answer, lines: Callable[[], Iterable[str]]) -> None:
        """Write the API's object to stdout, or the lines that show it."""
        if self.as_json:
            self.show_json(answer.body)
            return
        for line in lines():
            click.echo(plain(line))

    def show_page(self, answer: Answer, lines: list[str], empty: str) -> None:
        """Show a page of a list, and how to get the next."""
        self.show(answer, lambda: lines if len(lines) > 1 else [empty])
        cursor = answer.json.get("nextCursor")
        if cursor:
            self.note(f"There are more: --cursor {cursor}")

    def show_json(self, body: str) -> None:
        """Write an object of the API to stdout if the run prints objects."""
        if self.as_json:
            click.echo(plain_json(body))

    def note(self, message: str) -> None:
        """Write a message to stderr."""
        click.echo(plain(message), err=True)
