"""Workers run every test once, report what one process would report, and end the run when one of them breaks down."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.check, pytest.mark.slow(6)]
ROOT = Path(__file__).parents[2]
CONFTEST = """
import os, sys, pytest
sys.path.insert(0, ROOT)
from tests.harness.workers import WORKER, add_option, run_in_workers

def pytest_addoption(parser):
    add_option(parser)

@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    return run_in_workers(session)

@pytest.fixture(scope="session")
def log(request):
    yield request.config.rootpath / os.environ[WORKER]
    with (request.config.rootpath / os.environ[WORKER]).open("a") as file:
        file.write("torn down\\n")

@pytest.fixture(autouse=True)
def logged(log, request):
    with log.open("a") as file:
        file.write(request.node.name + "\\n")
"""


def run(directory: Path, *options: str, **files: str) -> subprocess.CompletedProcess[str]:
    (directory / "conftest.py").write_text(CONFTEST.replace("ROOT", repr(str(ROOT))))
    (directory / "pytest.ini").write_text("[pytest]\n")
    for name, text in files.items():
        (directory / f"test_{name}.py").write_text("import os, signal, sys, threading, pytest\n" + text)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "2",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:hypothesispytest",
    ]
    return subprocess.run([*command, *options], cwd=directory, capture_output=True, text=True, check=False, timeout=120)


def logs(directory: Path) -> list[list[str]]:
    return [(directory / name).read_text().splitlines() for name in ("w1", "w2") if (directory / name).exists()]


def test_every_test_runs_once_and_is_reported_as_by_one_process(tmp_path: Path) -> None:
    files = {
        f"file_{number}": "def test_one(): print(os.environ['TEST_WORKER'])\n"
        "def test_two(): assert [1] == [2], 'a reason'\n"
        "def test_three(): pytest.skip('not today')\n"
        for number in range(4)
    }
    done = run(tmp_path, "-rfs", **files)
    assert done.returncode == 1
    assert "4 failed, 4 passed, 4 skipped" in done.stdout
    assert done.stdout.count("E   AssertionError: a reason") == 4
    assert "not today" in done.stdout
    assert "test_file_3.py::test_two" in done.stdout
    found = logs(tmp_path)
    assert sorted(name for log in found for name in log) == sorted(
        ["torn down"] * len(found) + ["test_one", "test_two", "test_three"] * 4
    )
    for log in found:
        assert log == ["test_one", "test_two", "test_three"] * (len(log) // 3) + ["torn down"]


@pytest.mark.parametrize(
    ("test", "message"),
    {
        "def test_it(): os.kill(os.getpid(), signal.SIGKILL)": "ended during test_file.py::test_it",
        "def test_it(): pytest.exit('enough')": "Exit: enough",
    }.items(),
    ids=["killed", "ended by the test"],
)
def test_run_fails_when_a_worker_breaks_down(test: str, message: str, tmp_path: Path) -> None:
    done = run(tmp_path, file=test, other="def test_other(): pass")
    assert done.returncode == 1
    assert message in done.stdout


def test_workers_stop_after_the_first_failure(tmp_path: Path) -> None:
    more = "".join(f"def test_{number}(): print('x' * 100_000); assert False\n" for number in range(50))
    done = run(tmp_path, "-x", "--tb=no", file=more, other=more)
    assert done.returncode == 1
    assert "stopping after 1 failures" in done.stdout
    assert all(log[-1] == "torn down" and len(log) < 50 for log in logs(tmp_path))
