"""`make run`, from the first process to the last.

PostgreSQL and Redis, GitHub, Stripe, Slack and mailbox, migrations, rows; then API and worker; then the service reads
its repositories from GitHub and writes a check on every head; then the demonstration. `sandbox.json` appears last.
"""

import sys

import requests
from sqlalchemy.exc import SQLAlchemyError

from tools.embedded import ServerError
from tools.embedded.locks import acquire_lock
from tools.sandbox import interrupts
from tools.sandbox.clients import Refused
from tools.sandbox.console import say
from tools.sandbox.processes import Processes
from tools.sandbox.sandbox import Sandbox
from tools.sandbox.settings import REPORT, SandboxError, Settings, load_settings, reserve_ports

PREDECESSOR_TIMEOUT = 30.0
"""Seconds that the processes of an earlier sandbox have left to end."""


def run(settings: Settings, lock: int) -> int:
    """Run the sandbox until it is stopped; return the exit status."""
    logs = settings.directory / "logs"
    logs.mkdir(exist_ok=True)
    report = settings.directory / REPORT
    processes, make = Processes(logs, lock), interrupts.Make()
    status = 0
    try:
        sandbox = Sandbox(settings, processes)
        sandbox.start()
        sandbox.watch(make)
    except (SandboxError, ServerError) as error:
        say(f"\n\n{error}")
        status = 1
    except (Refused, requests.RequestException, SQLAlchemyError) as error:
        reason = str(error).rstrip(".")
        say("\n\n" + (processes.describe_failure() or f"The sandbox failed: {reason}. The logs are in {logs}."))
        status = 1
    except interrupts.Interrupted:
        pass
    finally:
        interrupts.ignore()
        say("\nStopping…")
        report.unlink(missing_ok=True)
        processes.stop()
    say("Stopped.")
    return status


def lock_directory(settings: Settings) -> int:
    """Return the lock that all processes of a sandbox share. Raise SandboxError if another uses the directory."""
    try:
        settings.directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SandboxError(f"SANDBOX_DIR={settings.directory} cannot be made: {error.strerror}.") from error
    if acquire_lock(settings.directory / "sandbox.lock", 0) is None:
        raise SandboxError(f"A sandbox runs in {settings.directory} already. Stop it, or set SANDBOX_DIR=…")
    lock = acquire_lock(settings.directory / "processes.lock", PREDECESSOR_TIMEOUT)
    if lock is None:
        raise SandboxError(f"Processes of an earlier sandbox in {settings.directory} do not end.")
    (settings.directory / REPORT).unlink(missing_ok=True)  # of a sandbox that was killed; it would say: ready
    return lock


def main() -> int:
    """Run one sandbox per directory."""
    interrupts.listen()
    try:
        settings = load_settings()
        lock = lock_directory(settings)
        reservations = reserve_ports(settings)
    except SandboxError as error:
        print(error, file=sys.stderr)
        return 1
    except interrupts.Interrupted:
        return 0
    try:
        return run(settings, lock)
    finally:
        for reservation in reservations:
            reservation.close()


if __name__ == "__main__":
    sys.exit(main())
