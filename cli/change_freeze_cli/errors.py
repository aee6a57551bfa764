"""How a command fails: its exit code and its message, which goes to stderr."""

from typing import IO, Any

import click

from change_freeze_cli.text import plain

REFUSED = 1
UNCLEAR = 3


class CommandError(click.ClickException):
    """A command that cannot do what it should; each line of the message is made harmless for a terminal."""

    exit_code = REFUSED

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the message to stderr."""
        for line in self.message.split("\n"):
            click.echo(f"freeze: {plain(line)}", file=file, err=True)


class RefusedError(CommandError):
    """The service refuses, or there is no sign-in."""

    def __init__(self, message: str, *, code: str = "", body: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.body = body
        """The API's error object."""


class UnclearError(CommandError):
    """The result is not known: the service cannot be reached, fails, or does not answer as its API does."""

    exit_code = UNCLEAR
