"""`python -m app.commands.plan`: give an organisation another plan, until billing does."""

import argparse
import sys
from collections.abc import Sequence

from app.commands.operator_cli import NoWakeups, ended, operator_name, say
from app.config import Config
from app.database import IDENTITY_ROLE, make_engine
from rules.access.entitlements import PLANS
from rules.access.permissions import SYSTEM
from services.core.clock import DatabaseClock
from services.core.unit_of_work import Caller, UnitOfWorkFactory
from services.organizations.plans import change_plan

_COMMAND = Caller(None, SYSTEM, "system")
_EPILOG = """\
It acts from the next request on. A lesser plan takes features away and leaves everything that is there: no freeze ends,
no exception, no schedule, and none of them can be kept from ending. Checks on frozen branches get or lose their button
"Request exception" within minutes. The organisation's audit log gets an entry, organization.plan_changed.

  python -m app.commands.plan acme business --by grace@example.com

Run it where the service runs, with the same environment (DATABASE_URL, ...). It ends with 1 when it is refused, and
with 3 when it cannot work at all."""


def read_arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; ends the process with 2 where it makes no sense."""
    parser = argparse.ArgumentParser(
        prog="python -m app.commands.plan",
        description="Change the plan of an organisation.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("organization", help="the organisation's id (org_...) or its slug")
    parser.add_argument("plan", choices=PLANS, help="the plan that it is to have")
    parser.add_argument(
        "--by", type=operator_name, metavar="OPERATOR", help="who does it, as the audit names them (default: nobody)"
    )
    return parser.parse_args(given)


def run(given: argparse.Namespace, config: Config) -> int:
    """Do what the command line says, and return 0; raises ServiceError, OperationalError."""
    engine = make_engine(config.database_url, 1, role=IDENTITY_ROLE)
    try:
        with UnitOfWorkFactory(engine, DatabaseClock(), NoWakeups()).open(_COMMAND) as uow:
            organization, before = change_plan(uow, given.organization, given.plan, by=given.by)
        say(f"{organization.name} ({organization.id}) had the plan {before}, and has {organization.plan} now.")
        return 0
    finally:
        engine.dispose()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    given = read_arguments(arguments)
    return ended(lambda config: run(given, config))


if __name__ == "__main__":
    sys.exit(main())
