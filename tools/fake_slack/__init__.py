"""A stateful simulated Slack over real HTTP, for development and tests.

`python -m tools.fake_slack --port 9002`, or in process: `handle = serve(FakeSlack())`.
"""

from tools.fake_slack.server import Handle, serve
from tools.fake_slack.slack import FakeSlack

__all__ = ["FakeSlack", "Handle", "serve"]
