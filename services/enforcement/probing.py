"""Probing: reading the code host's active rules of each branch, and recording what they make of our check.

Branches are due when somebody asks (`asking.py`): the full pass, a webhook about rules, whoever changes what is
watched, `verify`, and a schedule before it freezes. A probe leases due branches of one installation
(`probe_queue.py`), reads them outside of any transaction (`probe_reading.py`), has `rules.rulesets.enforcement`
judge what was seen, and records it if no later probe has begun (`probe_records.py`). What may be seen depends on the
permissions of the installation, which are therefore asked for first.

A permission that is missing is a finding, not an error: it is looked at again with the next full pass. What fails is
due again later, each time later; a limit of the code host holds every worker back, as it does the reconciler.
"""

import logging
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import groupby

from integrations.github import GitHub, GitHubError
from integrations.github.rules import BranchRules
from models.installations import Installation
from rules.access.permissions import CODE_HOST
from rules.freezes.batches import batches
from rules.rulesets.enforcement import evaluate
from rules.rulesets.findings import from_json
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWorkFactory
from services.enforcement.probe_queue import LeasedProbe, LeasedProbes, acquire_probes
from services.enforcement.probe_reading import facts_of, read_details, read_rules
from services.enforcement.probe_records import Probed, fail, record
from services.github_access.failures import RATE_LIMITS, is_installation_wide, pause_when_limited
from services.github_access.rate_limiter import background_client
from services.installations.status import refresh_status

logger = logging.getLogger(__name__)


Failed = list[tuple[LeasedProbe, GitHubError]]


def probe_due(uow_factory: UnitOfWorkFactory, github: GitHub) -> bool:
    """Probe the branches of one installation that are due; False when none is."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        batch = acquire_probes(uow)
    if batch is None:
        return False
    failed: Failed = []
    try:
        permissions = _permissions(uow_factory, github, batch)
        probed = list(_look(uow_factory, github, batch, permissions, failed))
    except GitHubError as error:
        _give_back(uow_factory, batch, [(probe, error) for probe in batch.probes])
        return True
    for organization_id, found in groupby(sorted(probed, key=_organization), key=_organization):
        with uow_factory.open(Caller(organization_id, CODE_HOST, "code_host")) as uow:
            record(uow, batch, list(found))
    _give_back(uow_factory, batch, failed)
    return True


def _organization(probed: Probed) -> str:
    return probed.probe.organization_id


def _permissions(uow_factory: UnitOfWorkFactory, github: GitHub, batch: LeasedProbes) -> Mapping[str, str]:
    """Return what the App may do in the installation at present; also notices one that was removed or suspended."""
    refresh_status(uow_factory, github, batch.installation_id)
    with uow_factory.open(SYSTEM_CALLER) as uow:
        return dict(uow.session.get_one(Installation, batch.installation_id).permissions)


def _look(
    uow_factory: UnitOfWorkFactory, github: GitHub, batch: LeasedProbes, permissions: Mapping[str, str], failed: Failed
) -> Iterator[Probed]:
    """Read every claimed branch and judge it; those that could not be read go to `failed`."""
    client = background_client(uow_factory, github, batch.installation_id)
    seen: list[tuple[LeasedProbe, BranchRules]] = []
    for chunk in batches(batch.probes, github.settings.repositories_per_query):
        _renew(uow_factory, batch)
        try:
            seen += read_rules(client, chunk, partial(_renew, uow_factory, batch))
        except GitHubError as error:
            if is_installation_wide(error):
                raise
            failed += [(probe, error) for probe in chunk]
    _renew(uow_factory, batch)
    details = read_details(client, seen)
    for probe, found in seen:
        facts = facts_of(probe, found, details, permissions, github.settings.app_id)
        if isinstance(facts, GitHubError):
            failed.append((probe, facts))
        else:
            yield Probed(probe, evaluate(facts, [from_json(finding) for finding in probe.findings]))


def _renew(uow_factory: UnitOfWorkFactory, batch: LeasedProbes) -> None:
    with uow_factory.open(SYSTEM_CALLER) as uow:
        batch.lease.renew(uow)


def _give_back(uow_factory: UnitOfWorkFactory, batch: LeasedProbes, failed: Failed) -> None:
    """Have branches tried again that could not be read; a limit of the code host holds everybody back."""
    if not failed:
        return
    limit = next((error for _probe, error in failed if error.kind in RATE_LIMITS), None)
    with uow_factory.open(SYSTEM_CALLER) as uow:
        pause_when_limited(uow, batch.installation_id, limit)
        fail(uow, batch, failed)
    codes = {error.code for _probe, error in failed}
    logger.warning("%d branches of installation %s could not be probed: %s", len(failed), batch.installation_id, codes)
