"""The town of `tests/jobs`: an organisation at the simulated code host, and a reconciler between the two."""

from tests.jobs.conftest import build, fake_github, private_key, town

__all__ = ["build", "fake_github", "private_key", "town"]
