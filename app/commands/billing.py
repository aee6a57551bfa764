"""`python -m app billing setup`: make the products, prices and portal configuration at Stripe."""

import argparse
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.commands.command_line import main_of, parser_of, say
from app.config import Config
from app.wiring import stripe_of
from integrations.stripe import StripeError
from integrations.stripe.catalogue import set_up
from rules.billing.offers import read_offers
from rules.errors import ServiceError

_EPILOG = """\
The file has a table for each plan, with amounts in the smallest unit of each currency; the first one is the default:

  [plans.team]
  name = "Team"
  taxBehavior = "exclusive"
  month = {EUR = 4900, USD = 5300}
  year = {EUR = 49000, USD = 53000}

What is there as wanted stays, so running it again changes nothing. A price that is to change is replaced, and takes
over its lookup key (team_month); subscriptions keep their price. It prints the value of STRIPE_PORTAL_CONFIGURATION.

STRIPE_SECRET_KEY has to be allowed to write products, prices and portal configurations. It ends with 1 if Stripe or
the file is refused, and with 3 if the configuration is not usable."""


def read_arguments(given: Sequence[str]) -> argparse.Namespace:
    """Read the command line; end the process with 2 if it is not valid."""
    parser = parser_of("billing", "Set up what is sold at Stripe.", _EPILOG)
    parser.add_argument("action", choices=["setup"], help="what to do")
    parser.add_argument("file", type=Path, help="the plans and their prices, TOML")
    return parser.parse_args(given)


def run(given: argparse.Namespace, config: Config) -> int:
    """Set up Stripe and return 0. Raise ServiceError if the file or Stripe refuses it."""
    stripe = stripe_of(config)
    if stripe is None:
        raise ServiceError("stripe_unavailable", "STRIPE_SECRET_KEY is not set.")
    offers = read_offers(_read(given.file))
    try:
        changes, portal = set_up(stripe, offers)
    except StripeError as error:
        raise ServiceError("stripe_unavailable", f"Stripe: {error.message}") from error
    say("\n".join(changes) or "Everything is there already.")
    print(f"STRIPE_PORTAL_CONFIGURATION={portal}")
    return 0


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise ServiceError("validation_failed", f"{file} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ServiceError("validation_failed", f"{file} cannot be read: {error}") from error


main = main_of(read_arguments, run)
