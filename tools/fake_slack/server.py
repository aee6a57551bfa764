"""Serving a simulated Slack over HTTP, in a thread of this process."""

from dataclasses import dataclass

from tools.fake_slack.application import Application
from tools.fake_slack.slack import FakeSlack
from tools.simulation.server import ServerThread, listen, serve_in_thread, url_of


@dataclass(slots=True)
class Handle:
    """A running Slack."""

    slack: FakeSlack
    base_url: str
    running: ServerThread

    def stop(self, *, wait: bool = True) -> None:
        """Stop serving; without `wait`, requests may still be answered for a fifth of a second."""
        self.running.stop(wait=wait)


def serve(slack: FakeSlack, port: int = 0, address: str = "127.0.0.1") -> Handle:
    """Serve a simulated Slack in a thread and return when it accepts connections."""
    listener = listen(address, port)
    slack.base_url = url_of(listener)
    running = serve_in_thread(Application(slack), listener, "fake_slack")
    return Handle(slack, slack.base_url, running)
