"""Serving a simulated Stripe over HTTP, in a thread of this process."""

from dataclasses import dataclass

from tools.fake_stripe.application import Application
from tools.fake_stripe.stripe import FakeStripe
from tools.simulation.server import ServerThread, listen, serve_in_thread, url_of


@dataclass(slots=True)
class Handle:
    """A running Stripe."""

    stripe: FakeStripe
    base_url: str
    running: ServerThread

    def stop(self, *, wait: bool = True) -> None:
        """Stop serving and sending webhooks; without `wait`, requests may still be answered for a fifth of a second."""
        self.running.stop(wait=wait)
        self.stripe.sender.stop()


def serve(stripe: FakeStripe, port: int = 0, address: str = "127.0.0.1") -> Handle:
    """Serve a simulated Stripe in a thread and return when it accepts connections."""
    listener = listen(address, port)
    stripe.base_url = url_of(listener)
    running = serve_in_thread(Application(stripe), listener, "fake_stripe")
    return Handle(stripe, stripe.base_url, running)
