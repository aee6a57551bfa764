"""Serving a simulated GitHub over HTTP, in a thread of this process."""

from dataclasses import dataclass

from tools.fake_github.application import Application
from tools.fake_github.github import FakeGitHub
from tools.simulation.server import ServerThread, listen, serve_in_thread, url_of


@dataclass(slots=True)
class Handle:
    """A running GitHub."""

    github: FakeGitHub
    base_url: str
    running: ServerThread

    def replace(self, github: FakeGitHub) -> None:
        """Serve another GitHub at the same address; connections that are open stay with the former one.

        A test that needs a GitHub of its own gets it without the start of a server.
        """
        self.github.sender.stop()
        github.use_base_url(self.base_url)
        self.running.replace(Application(github))
        self.github = github

    def stop(self, *, wait: bool = True) -> None:
        """Stop serving and sending webhooks; without `wait`, requests may still be answered for a fifth of a second."""
        self.running.stop(wait=wait)
        self.github.sender.stop()


def serve(github: FakeGitHub, port: int = 0, address: str = "127.0.0.1") -> Handle:
    """Serve a simulated GitHub in a thread and return when it accepts connections."""
    listener = listen(address, port)
    github.use_base_url(url_of(listener))
    running = serve_in_thread(Application(github), listener, "fake_github")
    return Handle(github, github.base_url, running)
