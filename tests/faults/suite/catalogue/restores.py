"""An old backup below everything that runs: freezes made since are not released until an operator confirms it."""

import shutil
import subprocess

from app.commands.units_of_work import NoWakeups
from app.database import WORKER_ROLE, make_engine
from services.core.clock import DatabaseClock
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from services.restores.restores import confirm_restore, record_shown
from tests.faults.suite.catalogue.steps import LEASE, is_right, is_settled
from tests.faults.suite.client import Client, Ledger
from tests.faults.suite.judge import is_busy, wrong_heads
from tests.faults.suite.processes import wait_until
from tests.faults.suite.stack import LOGIN, Stack
from tests.faults.suite.trial import Trial, fault


def _confirm(stack: Stack) -> None:
    """Do what an operator does: see what would be released, and confirm it."""
    engine = make_engine(stack.postgres.url("postgres", LOGIN), 1, role=WORKER_ROLE)
    uow_factory = UnitOfWorkFactory(engine, DatabaseClock(), NoWakeups())
    try:
        with uow_factory.open(SYSTEM_CALLER) as uow:
            record_shown(uow)
        confirm_restore(uow_factory, by="grace@example.com")
    finally:
        engine.dispose()


@fault("An old backup is restored below what runs: freezes made since are not released", load=False)
def old_backup_restored(trial: Trial) -> None:
    stack, server = trial.stack, trial.stack.postgres
    backup = server.directory.with_name("backup")
    stack.stop_postgres()
    subprocess.run(["cp", "-a", server.directory, backup], check=True)
    stack.start_postgres()
    stack.wait_for_api()
    Client(stack, stack.acme, Ledger()).freeze()  # it will be lost, so the judge is not to look for it
    wait_until(lambda: is_settled(stack), "the freeze", 60)
    written = len(stack.github.calls.writes)
    stack.stop_postgres()
    shutil.rmtree(server.directory)
    backup.rename(server.directory)
    (server.directory / "recovery.signal").touch()
    server.settings = {**server.settings, "restore_command": "false"}
    stack.start_postgres()
    wait_until(lambda: stack.sql("SELECT 1 WHERE NOT pg_is_in_recovery()"), "the end of the recovery", 30)
    try:
        noticed = "SELECT 1 FROM database_identity WHERE noticed_at IS NOT NULL"
        wait_until(lambda: stack.sql(noticed), "the restore to be noticed", 30)
        stack.skip(LEASE)
        stack.request_full_resync()
        wait_until(lambda: not is_busy(stack, stack.acme) and not is_right(stack), "all to be read back", 60)
        released = [write for write in stack.github.calls.writes[written:] if write["conclusion"] == "success"]
        trial.require(not released, f"nothing is released: {released}")
        shown = {shown for shown, _expected in wrong_heads(stack, stack.acme).values()}
        trial.require(shown == {"failure"}, f"the freeze that was lost still blocks: {shown}")
    finally:
        trial.injected()
        _confirm(stack)
