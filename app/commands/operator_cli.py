"""What the commands of operators have in common: whose name they act in, whom they wake, and how they end."""

import argparse
import sys
from collections.abc import Callable

import sqlalchemy.exc

from app.config import Config, ConfigurationError, load_config
from rules.errors import ServiceError

LONGEST_NAME = 100


class NoWakeups:
    """For commands that leave no work behind."""

    def send(self, names: set[str]) -> None:
        """Wake nobody."""


def operator_name(text: str) -> str:
    """Return the name of an operator as it is given; raises ArgumentTypeError for what the audit cannot show."""
    name = text.strip()
    if not name or not name.isprintable() or len(name) > LONGEST_NAME:
        raise argparse.ArgumentTypeError(f"has to be 1 to {LONGEST_NAME} printable characters")
    return name


def say(text: str) -> None:
    """Tell the operator something that is no result."""
    print(text, file=sys.stderr)


def ended(work: Callable[[Config], int]) -> int:
    """Do the work of a command, and return its exit status: 1 when it is refused, 3 when it cannot work at all."""
    try:
        return work(load_config())
    except ServiceError as error:
        say(error.message)
        return 1
    except ConfigurationError as error:
        say(f"The environment is not that of the service.\n{error}")
        return 3
    except sqlalchemy.exc.OperationalError as error:
        say(f"The database does not answer: {error.orig}")
        return 3
