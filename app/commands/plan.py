"""`python -m app plan`: grant a plan to an organisation, end it, and show who has which plan."""

import argparse
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from app.commands.command_line import main_of, operator_name, parser_of, say
from app.commands.units_of_work import units_of_work
from app.config import Config
from app.database import IDENTITY_ROLE
from rules.billing.plans import PLANS
from rules.time.instants import format_instant
from services.billing.manual_plans import OrganizationPlan, end_plan, grant_plan, list_plans_of_organizations
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork

_EPILOG = """\
An organisation has the best plan of its grants (manual, stripe, trial) until they end, and at least DEFAULT_PLAN; only
beside a manual grant it may be lower. This command grants and ends the manual one; a new one replaces the earlier one.
The change applies from the next request on. A smaller plan removes features and keeps all data: freezes, exceptions and
schedules go on, and can still be ended. Checks on frozen branches gain or lose their button "Request exception" within
minutes. The organisation's audit log gets an entry, organization.plan_changed.

  python -m app plan acme business --by grace@example.com
  python -m app plan acme team --until 2027-01-31T12:00:00Z
  python -m app plan acme --end --by grace@example.com
  python -m app plan acme                 show its plan and its grants
  python -m app plan --json               the same of all organisations that had a grant

Run it where the service runs, with the same environment (DATABASE_URL, ...). It ends with 1 if the change is rejected,
and with 3 if the configuration or the database is not usable."""


def read_arguments(given: Sequence[str]) -> argparse.Namespace:
    """Read the command line; end the process with 2 if it is not valid."""
    parser = parser_of("plan", "Grant a plan to an organisation, end it, or show plans.", _EPILOG)
    parser.add_argument(
        "organization", nargs="?", help="the organisation's id (org_...) or its slug (default: show all with a grant)"
    )
    parser.add_argument("plan", nargs="?", choices=PLANS, help="the plan to grant (default: show its plan)")
    parser.add_argument(
        "--until",
        type=_instant,
        metavar="INSTANT",
        help="the end of the grant: 2027-01-31T12:00:00Z, or 2027-01-31 for the beginning of that day in UTC "
        "(default: no end)",
    )
    parser.add_argument("--end", action="store_true", help="end the manual plan now")
    parser.add_argument(
        "--by", type=operator_name, metavar="OPERATOR", help="your name, for the audit log (default: none)"
    )
    parser.add_argument("--json", action="store_true", help="print the plans as JSON")
    arguments = parser.parse_args(given)
    if arguments.end and (arguments.organization is None or arguments.plan is not None):
        parser.error("--end requires an organisation, and no plan")
    if arguments.until is not None and arguments.plan is None:
        parser.error("--until requires a plan")
    return arguments


def _instant(text: str) -> datetime:
    """Return an instant. Raise ArgumentTypeError if it is not one, or has no time zone."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError("must be 2027-01-31T12:00:00Z or 2027-01-31") from None
    if instant.tzinfo is None:
        if "T" in text or " " in text:
            raise argparse.ArgumentTypeError("must have a time zone, such as Z")
        return instant.replace(tzinfo=UTC)
    return instant.astimezone(UTC)


def run(given: argparse.Namespace, config: Config) -> int:
    """Change or show plans and return 0. Raise ServiceError or OperationalError."""
    with units_of_work(config, IDENTITY_ROLE) as uow_factory:
        with uow_factory.open(SYSTEM_CALLER) as uow:
            shown = _change_or_list(uow, given)
        if given.json:
            print(json.dumps([_as_json(each) for each in shown], indent=2))
        elif given.plan is not None or given.end:
            say(_as_text(shown[0]))
        else:
            for each in shown:
                print(_as_text(each))
        return 0


def _change_or_list(uow: UnitOfWork, given: argparse.Namespace) -> list[OrganizationPlan]:
    if given.end:
        return [end_plan(uow, given.organization, by=given.by)]
    if given.plan is not None:
        return [grant_plan(uow, given.organization, given.plan, given.until, by=given.by)]
    return list_plans_of_organizations(uow, given.organization)


def _as_text(shown: OrganizationPlan) -> str:
    current = shown.plan
    source = "" if current.source == "none" else f" ({current.source}{_until(current.until)})"
    organization = shown.organization
    line = f"{organization.name} ({organization.id}) has the plan {current.plan.id}{source}."
    grants = [f"  {grant.source}: {grant.plan}{_until(grant.until)}" for grant in shown.grants]
    return "\n".join([line, *grants])


def _until(instant: datetime | None) -> str:
    return "" if instant is None else f", until {format_instant(instant)}"


def _as_json(shown: OrganizationPlan) -> dict[str, Any]:
    current, organization = shown.plan, shown.organization
    return {
        "organization": {"id": organization.id, "slug": organization.slug, "name": organization.name},
        "plan": current.plan.id,
        "source": current.source,
        "until": _format(current.until),
        "grants": [
            {
                "source": grant.source,
                "reference": grant.reference,
                "plan": grant.plan,
                "until": _format(grant.until),
                "createdAt": format_instant(grant.created_at),
            }
            for grant in shown.grants
        ],
    }


def _format(instant: datetime | None) -> str | None:
    return None if instant is None else format_instant(instant)


main = main_of(read_arguments, run)
