"""The town of `tests/jobs`: an organisation at the simulated code host, and a reconciler between the two."""

from tests.jobs.conftest import build, codehost, private_key, town

__all__ = ["build", "codehost", "private_key", "town"]
