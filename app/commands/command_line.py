"""What the commands share: their parser, and how they report an error and end."""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import sqlalchemy.exc

from app.config import Config, ConfigurationError, load_config
from rules.errors import ServiceError

MAX_OPERATOR_NAME_LENGTH = 100
Value = TypeVar("Value")


def parser_of(command: str, description: str, epilog: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of a command, which shows its epilog as it is written."""
    return argparse.ArgumentParser(
        prog=f"python -m app {command}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def operator_name(text: str) -> str:
    """Return the name of an operator without spaces around it. Raise ArgumentTypeError if it cannot be audited."""
    name = text.strip()
    if not name or not name.isprintable() or len(name) > MAX_OPERATOR_NAME_LENGTH:
        raise argparse.ArgumentTypeError(f"must have 1 to {MAX_OPERATOR_NAME_LENGTH} printable characters")
    return name


def argument(parse: Callable[[str], Value]) -> Callable[[str], Value]:
    """Return the parser of a variable as one of an argument: of errors argparse shows only ArgumentTypeError's text."""

    def read(text: str) -> Value:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def say(text: str) -> None:
    """Print what is not the result of a command, to standard error."""
    print(text, file=sys.stderr)


def first_line(error: object) -> str:
    """Return the first line of an error's text."""
    return str(error).partition("\n")[0]


def main_of(
    read_arguments: Callable[[Sequence[str]], argparse.Namespace], run: Callable[[argparse.Namespace, Config], int]
) -> Callable[[Sequence[str]], int]:
    """Return the `main` of a command, which runs it with its arguments, and returns its exit status."""

    def main(arguments: Sequence[str]) -> int:
        given = read_arguments(arguments)
        return run_with_config(lambda config: run(given, config))

    return main


def run_with_config(work: Callable[[Config], int]) -> int:
    """Do the work of a command and return its exit status.

    It is 1 if a ServiceError rejects it, and 3 if the configuration or the database is not usable.
    """
    try:
        return work(load_config())
    except ServiceError as error:
        say(error.message)
        return 1
    except ConfigurationError as error:
        say(f"The environment is not that of the service.\n{error}")
        return 3
    except sqlalchemy.exc.OperationalError as error:
        say(f"The database cannot be used: {first_line(error.orig)}")
        return 3
