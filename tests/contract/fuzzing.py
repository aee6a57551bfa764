"""A run of Schemathesis in two parts, which two workers can share, and what both together must have reached."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.contract import CONTRACT_PATH

SEED = os.environ.get("FUZZ_SEED", "20261121")
FUZZED_WITH_KEYS = ["all"]
"""The key of all scopes, whose part takes as long as the others together."""
FUZZED_OTHERWISE = ["none", "owner", "sign-in"]
FUZZED_AT_LENGTH_ONLY = ["garbage", "viewer", "freeze:read"]
"""What these may call, `none` or `owner` may too; whom each operation refuses is in `test_credentials_matrix.py`."""
PARTS = 2
EXCUSED = {
    "retry_freeze",
    "claim_installation",
    "claim_slack_workspace",
    "list_slack_channels",
    "generate_compat_access_token",
}
"""What a run cannot call with success.

It has no failed target, no one visits GitHub or Slack, Slack did not issue the tokens of its workspaces, and the last
one refuses.
"""


def fuzz(kinds: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Try the contract with these kinds of credential; the part that ends last checks what was never called."""
    chosen = [argument for kind in kinds for argument in ("--credential", kind)]
    command = [sys.executable, "-m", "tools.fuzz", "--quick", "--examples", "2", "--seed", SEED, *chosen]
    done = subprocess.run(command, cwd=CONTRACT_PATH.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"Seed {SEED} (FUZZ_SEED={SEED} has this again)\n{done.stdout}\n{done.stderr}"
    never_called = set(done.stdout.partition("Never called with success: ")[2].splitlines()[0].split(", ")) - {"none"}
    parts = record(directory_of_run(tmp_path_factory), kinds[0], never_called)
    if len(parts) == PARTS:
        missed = set.intersection(*parts) - EXCUSED
        assert not missed, f"no call had success, see tools/fuzz/fixtures: {missed}"


def directory_of_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory that the workers of a run share."""
    directory = tmp_path_factory.getbasetemp() / "never_called"
    directory.mkdir(exist_ok=True)
    return directory


def record(directory: Path, part: str, never_called: set[str]) -> list[set[str]]:
    """Write what a part never called with success, and return that of all parts which have ended."""
    draft = directory.parent / f"never_called_{part}"
    draft.write_text("\n".join(never_called))
    draft.rename(directory / part)
    return [set(file.read_text().splitlines()) for file in directory.iterdir()]
