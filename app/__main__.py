"""`python -m app <command>`: run the service, or what its operators need; `python -m app --help` lists the commands."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from app import logs
from app.gc_tuning import import_frozen
from rules.version import VERSION


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its name, one line for the list, and the module whose `main` runs it, imported when it is needed."""

    name: str
    summary: str
    module: str
    writes_logs: bool = False
    """True if all that it writes is lines of a log; others print their results."""


COMMANDS = (
    Command("api", "serve the API and the pages with gunicorn", "app.commands.api", writes_logs=True),
    Command(
        "worker",
        "run jobs, and what is due by time; start as many as there are cores to spare",
        "app.worker",
        writes_logs=True,
    ),
    Command("migrate", "upgrade the database to the newest revision", "app.commands.migrate", writes_logs=True),
    Command("doctor", "check the configuration and everything that it names", "app.commands.doctor"),
    Command("restore", "show what a restored database would release, and confirm it", "app.commands.restore"),
    Command("pauses", "show the installations that GitHub limits, and end a pause", "app.commands.pauses"),
    Command("backup-check", "verify that a restored database is complete", "app.commands.backup_check"),
    Command("audit", "prove that no audit entry was changed or left out; archive old ones", "app.commands.audit"),
    Command("support", "start or end a read-only support session in an organisation", "app.commands.support"),
    Command("client", "block a client that people have connected, or show blocked ones", "app.commands.client"),
    Command("github-app", "register the GitHub App from a page, and write its settings", "app.commands.github_app"),
    Command("rotate-secrets", "encrypt secrets under the new SECRET_KEY", "app.commands.rotate_secrets"),
    Command("billing", "make the products, prices and portal configuration at Stripe", "app.commands.billing"),
    Command("plan", "grant a plan to an organisation, end it, or show plans", "app.commands.plan"),
)


def usage() -> str:
    """Return the list of commands."""
    lines = "\n".join(f"  {command.name:<16}{command.summary}" for command in COMMANDS)
    return f"usage: python -m app <command> [--help]\n       python -m app --version\n\ncommands:\n{lines}"


def main(arguments: Sequence[str]) -> int:
    """Run the command that the first argument names and return its exit status; 2 for an unknown command."""
    name = arguments[0] if arguments else ""
    if name in {"-h", "--help"}:
        sys.stdout.write(f"{usage()}\n")
        return 0
    if name == "--version":
        sys.stdout.write(f"{VERSION}\n")
        return 0
    command = next((each for each in COMMANDS if each.name == name), None)
    if command is None:
        problem = f"unknown command: {name}" if name else "a command is required"
        sys.stderr.write(f"{usage()}\n\npython -m app: {problem}\n")
        return 2
    status: int = import_frozen(command.module).main(arguments[1:])
    return status


if __name__ == "__main__":
    if any(command.writes_logs for command in COMMANDS if command.name in sys.argv[1:2]):
        logs.begin()
    sys.exit(main(sys.argv[1:]))
