"""Schemathesis over the whole contract with every kind of credential, shortly; `make fuzz` does it at length."""

import os
import subprocess
import sys

import pytest

from schemas.contract import CONTRACT_PATH

SEED = os.environ.get("FUZZ_SEED", "20261121")


@pytest.mark.slow
def test_whatever_is_sent_by_whomever_every_answer_is_one_that_the_contract_announces() -> None:
    command = [sys.executable, "-m", "tools.fuzz", "--quick", "--examples", "4", "--seed", SEED]
    done = subprocess.run(command, cwd=CONTRACT_PATH.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"Seed {SEED} (FUZZ_SEED={SEED} has this again)\n{done.stdout}\n{done.stderr}"
