"""`python -m app plan`: change the plan of an organisation."""

import argparse
from collections.abc import Sequence

from app.commands.command_line import NoWakeups, operator_name, parser_of, run_with_config, say
from app.config import Config
from app.database import IDENTITY_ROLE, make_engine
from rules.access.entitlements import PLANS
from rules.access.permissions import SYSTEM
from services.core.clock import DatabaseClock
from services.core.unit_of_work import Caller, UnitOfWorkFactory
from services.organizations.plans import change_plan

_COMMAND = Caller(None, SYSTEM, "system")
_EPILOG = """\
The change applies from the next request on. A smaller plan removes features and keeps all data: freezes, exceptions and
schedules go on, and can still be ended. Checks on frozen branches gain or lose their button "Request exception" within
minutes. The organisation's audit log gets an entry, organization.plan_changed.

  python -m app plan acme business --by grace@example.com

Run it where the service runs, with the same environment (DATABASE_URL, ...). It ends with 1 if the change is rejected,
and with 3 if the configuration or the database is not usable."""


def read_arguments(given: Sequence[str]) -> argparse.Namespace:
    """Read the command line; end the process with 2 if it is not valid."""
    parser = parser_of("plan", "Change the plan of an organisation.", _EPILOG)
    parser.add_argument("organization", help="the organisation's id (org_...) or its slug")
    parser.add_argument("plan", choices=PLANS, help="the new plan")
    parser.add_argument(
        "--by", type=operator_name, metavar="OPERATOR", help="your name, for the audit log (default: none)"
    )
    return parser.parse_args(given)


def run(given: argparse.Namespace, config: Config) -> int:
    """Change the plan and return 0. Raise ServiceError or OperationalError."""
    engine = make_engine(config.database_url, 1, role=IDENTITY_ROLE)
    try:
        with UnitOfWorkFactory(engine, DatabaseClock(), NoWakeups()).open(_COMMAND) as uow:
            organization, before = change_plan(uow, given.organization, given.plan, by=given.by)
        say(f"{organization.name} ({organization.id}) was on the plan {before} and is on {organization.plan} now.")
        return 0
    finally:
        engine.dispose()


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    given = read_arguments(arguments)
    return run_with_config(lambda config: run(given, config))
