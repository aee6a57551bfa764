"""Stops: for a freeze with many open heads, nothing can merge before their checks are written.

A stop is a context that no head has (`rules/freezes/stops.py`), and that the ruleset of a *place* requires: of the
frozen branches of a repository (`frozen_branch_rulesets`), of which one call writes many, or of an organisation, for
all of its repositories in which the same branches are frozen (`organization_stops`, `organization_stops.py`). The rows
say what GitHub may have; what is needed is computed each time, from freezes and from records of checks.

- **On.** The ruleset requires a new context. `GitHubLimits.ruleset_delay` later the rules are read; where they show the
  context, the branch is *stopped*, and counts as blocked.
- **Held.** A stop that is on is looked at every few seconds, without a call, so that no lost message keeps it on.
- **Passed** by exempt heads (`exempt_heads.py`): they get the context before the ruleset requires it, or as soon as an
  exception lets them in.
- **Off**, when no `success` stands on a frozen branch any more, or no branch is frozen. The branches cease to count as
  stopped first. GitHub does not look again at what waits for a rule, so the checks of heads with auto-merge, and of
  commits of a merge queue, are then written again.
- **Refused.** Where people have disabled or deleted the ruleset while its stop was in force, a branch is stopped again
  only for a freeze of it that starts later, by whatever ruleset; while that of the repository stops others, it does not
  name those that were refused. What they loosened otherwise is put right.
"""

from integrations.github import GitHub
from models.enforcement import OrganizationStop
from models.repositories import Repository
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.core.work_queue import Lease
from services.enforcement.frozen_branches import (
    ORGANIZATION_STOPS,
    STOPS,
)
from services.enforcement.organization_stops import MAX_RULESETS, leave_to_organization
from services.enforcement.probe_queue import PROBES_OF_STOPS
from services.enforcement.probes import probe_next
from services.enforcement.stop_batches import StopBatch
from services.github_access.rate_limiter import urgent_client

MAX_REPOSITORIES = 100
"""Repositories that one lease holds."""


def stop_due(uow_factory: UnitOfWorkFactory, github: GitHub) -> bool:
    """Bring the due stops of one installation up to date, or read back what was written; False if none is due."""
    worked = _work_on_organizations(uow_factory, github)
    with uow_factory.open(SYSTEM_CALLER) as uow:
        first = STOPS.first(uow)
    if first is not None and leave_to_organization(uow_factory, first.installation_id):
        worked = _work_on_organizations(uow_factory, github) or worked
    lease = None
    if first is not None:
        with uow_factory.open(SYSTEM_CALLER) as uow:
            within = (Repository.installation_id, first.installation_id)
            lease = STOPS.acquire(uow, within=within, limit=MAX_REPOSITORIES)
    if lease is not None:
        _work_on(uow_factory, github, lease)
    return probe_next(uow_factory, github, PROBES_OF_STOPS, urgent_client) or worked or lease is not None


def _work_on_organizations(uow_factory: UnitOfWorkFactory, github: GitHub) -> bool:
    """Bring the due rulesets of one organisation up to date; False if none is due."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        first = ORGANIZATION_STOPS.first(uow)
        lease = None
        if first is not None:
            within = (OrganizationStop.installation_id, first.installation_id)
            lease = ORGANIZATION_STOPS.acquire(uow, within=within, limit=MAX_RULESETS)
    if lease is not None:
        _work_on(uow_factory, github, lease)
    return lease is not None


def _work_on(uow_factory: UnitOfWorkFactory, github: GitHub, lease: Lease) -> None:
    with lease.while_held(uow_factory):
        client = urgent_client(uow_factory, github, lease.rows[0].installation_id, lease)
        StopBatch(uow_factory, github, client, lease).run()


def has_stops(uow: UnitOfWork) -> bool:
    """Return whether a stop is due, or was written and has to be read back."""
    return STOPS.has_work(uow) or ORGANIZATION_STOPS.has_work(uow) or PROBES_OF_STOPS.has_work(uow)
