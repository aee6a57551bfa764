"""One organisation does not delay another (I12), and a support session changes nothing (I13)."""

import re
import threading
import time

from tests.faults.suite.client import Client
from tests.faults.suite.judge import wrong_heads
from tests.faults.suite.processes import wait_until
from tests.faults.suite.trial import Trial, fault

SHARE = 5.0
"""Seconds that another organisation's work may delay a freeze."""
LATENCY = 0.3
UNKNOWN = "nobody_has_this_id"


@fault("An organisation keeps every worker busy: another one's freeze is not delayed more than 5 s", load=False)
def two_installations(trial: Trial) -> None:
    stack, over = trial.stack, threading.Event()
    for reconciler in stack.reconcilers:
        stack.wire(reconciler, "fake_github").delay = LATENCY

    def churn() -> None:
        while not over.is_set():
            trial.client.lift(trial.client.freeze())

    busy = threading.Thread(target=churn, daemon=True)
    busy.start()
    try:
        time.sleep(1.0)
        Client(stack, stack.beta, trial.ledger).freeze()
        asked = time.monotonic()
        wait_until(lambda: _blocked(trial) >= _heads(trial), "blocking the other's heads", 30)
        took = time.monotonic() - asked
        trial.require(busy.is_alive(), "the other organisation keeps the workers busy")
        trial.require(took <= SHARE, f"{len(_heads(trial))} heads took {took:.1f} s to block")
    finally:
        over.set()
        busy.join(20)
    trial.injected()


def _heads(trial: Trial) -> set[tuple[int, str]]:
    return {
        (repository.id, pull.head_sha)
        for repository in trial.stack.beta.repositories
        for pull in repository.pulls.values()
        if pull.state == "open"
    }


def _blocked(trial: Trial) -> set[tuple[int, str]]:
    github = trial.stack.github
    with github.world.lock:
        found = {key: github.world.newest_run(*key, "change-freeze/main", github.app_id) for key in _heads(trial)}
    return {key for key, run in found.items() if run is not None and run.conclusion == "failure"}


@fault("A support session tries every route that writes: nothing changes", within=40, load=False)
def support_session(trial: Trial) -> None:
    from schemas.contract import load_contract

    stack = trial.stack
    for process in stack.processes.values():
        if process is not stack.api:
            process.kill()  # nobody else changes a row meanwhile; what a request asks of them would stand there
    before, wrote = _everything(trial), len(stack.github.calls.writes)
    freeze = stack.sql("SELECT id FROM freezes WHERE organization_id = %s LIMIT 1", stack.acme.id)
    repository = stack.sql("SELECT id FROM repositories WHERE organization_id = %s LIMIT 1", stack.acme.id)[0][0]
    ids = {
        "freezeId": freeze[0][0] if freeze else "frz_01k7urvsaoopudarfi5or1b816",
        "repoId": repository,
        "branchId": stack.acme.branches[0],
    }
    tried = 0
    for operation in load_contract().operations.values():
        if operation.effect != "write" or not operation.accepts("Session"):
            continue
        path = re.sub(r"\{(\w+)\}", lambda found: ids.get(found[1], UNKNOWN), operation.path)
        answer = trial.client.request(operation.method.upper(), path, {}, credential=stack.acme.support)
        trial.require(answer.status_code == 403, f"{operation.id} was answered with {answer.status_code}")
        tried += 1
    trial.require(tried >= 10, f"only {tried} routes write")
    changed = [table for table, rows in _everything(trial).items() if rows != before[table]]
    trial.require(not changed, f"rows of {changed} were changed")
    trial.require(len(stack.github.calls.writes) == wrote, "checks were written")
    trial.require(not wrong_heads(stack), "heads are as they were")


def _everything(trial: Trial) -> dict[str, tuple[object, ...]]:
    """Return the number of rows of each table that routes write to, and a hash of their text."""
    tables = (
        "freezes",
        "freeze_targets",
        "watched_branches",
        "repositories",
        "installations",
        "audit_entries",
        "idempotency_keys",
    )
    return {
        table: trial.stack.sql(f"SELECT count(*), md5(string_agg(t::text, '' ORDER BY t::text)) FROM {table} t")[0]
        for table in tables
    }
