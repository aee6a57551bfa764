"""`python -m tools.fake_stripe`: the simulated Stripe as a process of its own."""

import argparse
import asyncio
import contextlib
import signal
import sys
from pathlib import Path

import uvloop

from tools.fake_stripe.application import Application
from tools.fake_stripe.keys import SECRET_KEY
from tools.fake_stripe.stripe import FakeStripe
from tools.fake_stripe.timeline import catch_up
from tools.simulation.server import listen, make_server, url_of

SAVE_INTERVAL = 3.0


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.fake_stripe", description="A simulated Stripe for development."
    )
    parser.add_argument("--port", type=int, required=True, help="port to listen on; 0 takes a free one and prints it")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: loopback only)")
    parser.add_argument(
        "--state", type=Path, help="file that keeps the state, so that a second start has the same data"
    )
    parser.add_argument("--secret-key", default=SECRET_KEY, help="API key that may do everything")
    parser.add_argument("--webhook-url", help="where webhooks are sent; without it none are")
    parser.add_argument(
        "--webhook-secret", action="append", default=[], help="secret that webhooks are signed with; two while rotating"
    )
    return parser.parse_args()


async def _keep_going(stripe: FakeStripe) -> None:
    """Save now and then, and let time pass also if nothing is called."""
    while True:
        await asyncio.sleep(SAVE_INTERVAL)
        with stripe.lock:
            catch_up(stripe)
        try:
            await asyncio.to_thread(stripe.save)
        except OSError as error:
            print(f"the state was not saved: {error}", file=sys.stderr, flush=True)


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
    server = make_server(Application(stripe))

    def stop() -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    going = asyncio.create_task(_keep_going(stripe))
    try:
        await server.serve([listener])
    finally:
        going.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await going
        stripe.save()
        stripe.sender.stop()


def main() -> None:
    """Run the process."""
    uvloop.run(run(arguments()))


if __name__ == "__main__":
    main()
