"""The harness of `tests/jobs`: an organisation at the simulated GitHub, and a reconciler between the two."""

from tests.jobs.conftest import build, fake_github, harness

__all__ = ["build", "fake_github", "harness"]
