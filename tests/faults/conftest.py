"""The harness of `tests/jobs`: an organisation at the simulated GitHub, and a reconciler between the two."""

from tests.jobs.conftest import build, enter_scene, fake_github, harness, scenes

__all__ = ["build", "enter_scene", "fake_github", "harness", "scenes"]
