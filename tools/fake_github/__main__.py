"""`python -m tools.fake_github`: the simulated GitHub as a process of its own."""

import argparse
from pathlib import Path

import uvloop

from tools.fake_github.application import Application
from tools.fake_github.github import PERSON_TOKEN, FakeGitHub
from tools.simulation.process import argument_parser, serve_until_stopped
from tools.simulation.server import listen, url_of


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argument_parser("tools.fake_github", "GitHub")
    parser.add_argument("--webhook-url", help="where webhooks are sent; without it none are")
    parser.add_argument("--webhook-secret", help="secret that webhooks are signed with")
    parser.add_argument("--app-id", type=int, default=1, help="id of the App that is registered (default: 1)")
    parser.add_argument("--app-slug", default="change-freeze", help="slug of the App (default: change-freeze)")
    parser.add_argument(
        "--app-public-key", type=Path, help="PEM file of the public key that the App's tokens are checked with"
    )
    parser.add_argument(
        "--person-token", default=PERSON_TOKEN, help="access token of the person `maintainer`, who pushes and merges"
    )
    parser.add_argument("--setup-url", help="where a person is sent who has installed the App")
    return parser.parse_args()


async def run(given: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT, saving now and then and at the end."""
    key = given.app_public_key.read_text(encoding="utf-8") if given.app_public_key else None
    github = FakeGitHub(
        app_id=given.app_id,
        app_slug=given.app_slug,
        app_public_key=key,
        webhook_url=given.webhook_url,
        webhook_secret=given.webhook_secret,
        person_token=given.person_token,
        state=given.state,
    )
    github.settings.setup_url = given.setup_url or github.settings.setup_url
    listener = listen(given.host, given.port)
    github.use_base_url(url_of(listener))
    print(f"GitHub at {github.base_url}", flush=True)
    try:
        await serve_until_stopped(Application(github), listener, github.save)
    finally:
        github.sender.stop()


def main() -> None:
    """Run the process."""
    uvloop.run(run(arguments()))


if __name__ == "__main__":
    main()
