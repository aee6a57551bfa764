"""An upgrade under load, in the order of docs/operations.md: the previous release works with the new schema."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from app.commands.migrate import migrate_patiently
from app.database_connections import RELEASE_REVISION
from tests.faults.suite.client import Client, Ledger
from tests.faults.suite.judge import forbidden, lost, wrong_heads
from tests.faults.suite.load import Load
from tests.faults.suite.processes import ROOT, wait_until
from tests.faults.suite.releases import PREVIOUS_RELEASE, Release, previous_release
from tests.faults.suite.runner import rest, resync_if_webhooks_left_no_trace
from tests.faults.suite.stack import Stack, running

pytestmark = [pytest.mark.check, pytest.mark.slow(40)]
STEPS = (("worker-1", "worker-2"), ("api",))
"""What is replaced after the schema was upgraded, in this order."""
PATIENCE = 60
"""Seconds until GitHub shows a freeze."""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    found = previous_release(tmp_path_factory.mktemp("release"))
    if found is None:
        pytest.skip(f"the commit of {PREVIOUS_RELEASE.name} is not in the history of this checkout")
    return found


@pytest.fixture
def stack(release: Release) -> Iterator[Stack]:
    with running(quick=True, small=True, release=release) as made:
        rest(made)
        made.github.sender.deliveries.clear()
        yield made


def replace(stack: Stack, name: str, directory: Path = ROOT) -> None:
    """End a process in order, and start one of another release: by default of this one."""
    process = stack.processes[name]
    process.terminate()
    with suppress(AssertionError):
        process.ended(20)
    process.kill()
    process.directory = directory
    process.start()
    if name == "api":
        stack.wait_for_api()


def errors_logged(stack: Stack) -> list[str]:
    logs = (stack.processes[name].log for name in stack.usual)
    lines = (line for log in logs for line in log.read_text().splitlines())
    return [line for line in lines if '"level":"error"' in line.lower() or line.startswith("Traceback")]


def block_and_release(stack: Stack, client: Client) -> None:
    """Freeze everything, wait until GitHub shows it, and lift the freeze again."""
    freeze = client.freeze()
    wait_until(lambda: not wrong_heads(stack, stack.acme), "the freeze at GitHub", PATIENCE)
    client.lift(freeze)
    wait_until(lambda: not wrong_heads(stack, stack.acme), "the lift at GitHub", PATIENCE)


def test_upgrade_under_load_loses_nothing_and_fails_no_request(stack: Stack, release: Release) -> None:
    ledger = Ledger()
    client = Client(stack, stack.acme, ledger)
    with Load(stack, ledger, seed=1, of=stack.beta) as load:
        block_and_release(stack, client)
        assert release.revision == PREVIOUS_RELEASE.read_text().split()[1]
        migrate_patiently(stack.postgres.url("postgres"))
        assert stack.sql("SELECT version_num FROM alembic_version") == [(RELEASE_REVISION,)]
        block_and_release(stack, client)
        for names in STEPS:
            for name in names:
                replace(stack, name)
            block_and_release(stack, client)
        for directory in (release.directory, ROOT):  # one worker goes back, and on again
            replace(stack, "worker-1", directory)
            block_and_release(stack, client)
    load.leave_nothing()
    resync_if_webhooks_left_no_trace(stack)
    rest(stack)
    assert load.failures == []
    assert lost(stack, ledger) == []
    assert forbidden(stack, ledger) == []
    assert [answer for answer in ledger.answers if answer[1] >= 500] == []
    assert errors_logged(stack) == []
