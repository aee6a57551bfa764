"""`python -m tools.fake_stripe`: the simulated Stripe as a process of its own."""

import argparse

import uvloop

from tools.fake_stripe.application import Application
from tools.fake_stripe.keys import SECRET_KEY
from tools.fake_stripe.stripe import FakeStripe
from tools.fake_stripe.timeline import catch_up
from tools.simulation.process import argument_parser, serve_until_stopped
from tools.simulation.server import listen, url_of


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argument_parser("tools.fake_stripe", "Stripe")
    parser.add_argument("--secret-key", default=SECRET_KEY, help="API key that may do everything")
    parser.add_argument("--webhook-url", help="where webhooks are sent; without it none are")
    parser.add_argument(
        "--webhook-secret", action="append", default=[], help="secret that webhooks are signed with; two while rotating"
    )
    return parser.parse_args()


async def run(given: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT, saving now and then and at the end."""
    stripe = FakeStripe(
        secret_key=given.secret_key,
        webhook_url=given.webhook_url,
        webhook_secrets=tuple(given.webhook_secret),
        state=given.state,
    )
    listener = listen(given.host, given.port)
    stripe.base_url = url_of(listener)
    print(f"Stripe at {stripe.base_url}", flush=True)

    def advance() -> None:
        """Let time pass also if nothing is called."""
        with stripe.lock:
            catch_up(stripe)

    try:
        await serve_until_stopped(Application(stripe), listener, stripe.save, advance=advance)
    finally:
        stripe.sender.stop()


def main() -> None:
    """Run the process."""
    uvloop.run(run(arguments()))


if __name__ == "__main__":
    main()
