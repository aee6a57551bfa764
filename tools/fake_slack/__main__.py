"""`python -m tools.fake_slack`: the simulated Slack as a process of its own."""

import argparse

import uvloop

from tools.fake_slack.application import Application
from tools.fake_slack.slack import FakeSlack
from tools.simulation.process import argument_parser, serve_until_stopped
from tools.simulation.server import listen, url_of


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argument_parser("tools.fake_slack", "Slack")
    parser.add_argument("--request-url", help="where commands, clicks and events are sent; without it none are")
    return parser.parse_args()


async def run(given: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT, saving now and then and at the end."""
    slack = FakeSlack(request_url=given.request_url, state=given.state)
    listener = listen(given.host, given.port)
    slack.base_url = url_of(listener)
    print(f"Slack at {slack.base_url}", flush=True)
    await serve_until_stopped(Application(slack), listener, slack.save)


def main() -> None:
    """Run the process."""
    uvloop.run(run(arguments()))


if __name__ == "__main__":
    main()
