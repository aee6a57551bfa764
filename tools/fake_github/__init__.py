"""A stateful simulated GitHub over real HTTP, for development and tests.

`python -m tools.fake_github --port 9000`, or in process: `handle = serve(FakeGitHub(app_public_key=...))`.
"""

from tools.fake_github.github import FakeGitHub
from tools.fake_github.server import Handle, serve

__all__ = ["FakeGitHub", "Handle", "serve"]
