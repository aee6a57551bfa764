"""Probes: read GitHub's active rules of each branch, and save whether they make our check block merges.

Branches are made due by `enforcement_status.probe_requests`: in the resync, after a webhook about rules, when a
branch becomes watched or unwatched, by `verify`, and by a schedule before it freezes. A probe leases due branches of
one installation (`probe_queue.py`), reads them outside any transaction (`probe_reads.py`), has
`rules.rulesets.enforcement` evaluate what was read, and saves it if its leases still hold (`probe_records.py`). What
can be read depends on the permissions of the installation, which are therefore read first, but for stops.

A missing permission is a finding, not an error: it is checked again by the next round of the resync. A branch that
cannot be read is retried with back-off; a rate limit pauses the installation for every worker.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby

from integrations.github import GitHub, GitHubError, InstallationClient
from integrations.github.rules import BranchRules
from models.installations import Installation
from rules.access.permissions import CODE_HOST
from rules.batches import batches
from rules.rulesets.enforcement import evaluate
from rules.rulesets.findings import from_json
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWorkFactory
from services.core.work_queue import Lease, WorkQueue
from services.enforcement.own_rules import request_own_rules
from services.enforcement.probe_queue import (
    MAX_BRANCHES,
    MAX_STOPPED_BRANCHES,
    PROBES,
    PROBES_OF_STOPS,
    LeasedProbe,
    LeasedProbes,
    acquire_probes,
)
from services.enforcement.probe_reads import facts_of, read_details, read_rules
from services.enforcement.probe_records import ProbeResult, reschedule_failed, save_results
from services.enforcement_status.frozen_branch_requests import request_frozen_rulesets
from services.freezes.completion import record_enforcement_on
from services.github_access.concurrency import in_parallel
from services.github_access.failures import RATE_LIMITS, is_installation_wide, pause_when_limited
from services.github_access.rate_limiter import background_client
from services.installations.status import refresh_status

logger = logging.getLogger(__name__)

Failed = list[tuple[LeasedProbe, GitHubError]]


ClientOf = Callable[[UnitOfWorkFactory, GitHub, int, Lease], InstallationClient]


def probe_due(uow_factory: UnitOfWorkFactory, github: GitHub) -> bool:
    """Probe the due branches of one installation; False if none is due."""
    return probe_next(uow_factory, github, PROBES, background_client)


def probe_next(uow_factory: UnitOfWorkFactory, github: GitHub, queue: WorkQueue, client_of: ClientOf) -> bool:
    """Probe the due branches of one installation that a queue has; False if it has none.

    Those whose stop was written are read concurrently: a freeze waits for them.
    """
    with uow_factory.open(SYSTEM_CALLER) as uow:
        batch = acquire_probes(uow, queue, limit=MAX_STOPPED_BRANCHES if queue is PROBES_OF_STOPS else MAX_BRANCHES)
    if batch is None:
        return False
    with batch.lease.while_held(uow_factory):
        client = client_of(uow_factory, github, batch.installation_id, batch.lease)
        _probe_all(uow_factory, github, client, batch)
    return True


def _probe_all(uow_factory: UnitOfWorkFactory, github: GitHub, client: InstallationClient, batch: LeasedProbes) -> None:
    failed: Failed = []
    try:
        permissions = _permissions(uow_factory, github, batch)
        probed = list(_probe(github, client, batch, permissions, failed))
    except GitHubError as error:
        _fail(uow_factory, batch, [(probe, error) for probe in batch.probes])
        return
    for organization_id, found in groupby(sorted(probed, key=_organization), key=_organization):
        with uow_factory.open(Caller(organization_id, CODE_HOST, "code_host")) as uow:
            results = list(found)
            save_results(uow, batch, results)
        changed = [each for each in results if each.changes_blocking(batch.started_at)]
        if changed:
            are_held = all(each.is_held for each in changed)
            with uow_factory.open(SYSTEM_CALLER) as uow:
                record_enforcement_on(uow, [each.probe.branch_id for each in changed], are_held=are_held)
        probed_ids = [each.probe.branch_id for each in results]
        request_own_rules(uow_factory, organization_id, probed_ids, permissions)
        with uow_factory.open(SYSTEM_CALLER) as uow:
            request_frozen_rulesets(uow, probed_ids)
    _fail(uow_factory, batch, failed)


def _organization(probed: ProbeResult) -> str:
    return probed.probe.organization_id


def _permissions(uow_factory: UnitOfWorkFactory, github: GitHub, batch: LeasedProbes) -> Mapping[str, str]:
    """Return the App's permissions in the installation, read again, which also detects a removal or suspension.

    A stop was written a moment ago with those that are stored, and a freeze waits for its reading: they count.
    """
    if batch.lease.queue is not PROBES_OF_STOPS:
        refresh_status(uow_factory, github, batch.installation_id)
    with uow_factory.open(SYSTEM_CALLER) as uow:
        return dict(uow.session.get_one(Installation, batch.installation_id).permissions)


def _probe(
    github: GitHub, client: InstallationClient, batch: LeasedProbes, permissions: Mapping[str, str], failed: Failed
) -> Iterator[ProbeResult]:
    """Read and evaluate every leased branch; those that could not be read are added to `failed`."""
    chunks = list(batches(batch.probes, github.settings.branches_per_query))
    concurrent = batch.lease.queue is PROBES_OF_STOPS
    read = in_parallel(partial(_read, client), chunks) if concurrent else map(partial(_read, client), chunks)
    seen: list[tuple[LeasedProbe, BranchRules]] = []
    for chunk, found_or_error in zip(chunks, read, strict=True):
        if isinstance(found_or_error, GitHubError):
            failed += [(probe, found_or_error) for probe in chunk]
        else:
            seen += found_or_error
    details = read_details(client, seen, concurrently=concurrent)
    for probe, found in seen:
        facts = facts_of(probe, found, details, permissions, github.settings.app_id)
        if isinstance(facts, GitHubError):
            failed.append((probe, facts))
        else:
            yield ProbeResult(probe, evaluate(facts, [from_json(finding) for finding in probe.findings]))


def _read(
    client: InstallationClient, chunk: Sequence[LeasedProbe]
) -> list[tuple[LeasedProbe, BranchRules]] | GitHubError:
    """Return the rules of some branches, or why they could not be read; raise what concerns the whole installation."""
    try:
        return read_rules(client, chunk)
    except GitHubError as error:
        if is_installation_wide(error):
            raise
        return error


def _fail(uow_factory: UnitOfWorkFactory, batch: LeasedProbes, failed: Failed) -> None:
    """Reschedule branches that could not be read; a rate limit pauses the installation."""
    if not failed:
        return
    limit = next((error for _probe, error in failed if error.kind in RATE_LIMITS), None)
    with uow_factory.open(SYSTEM_CALLER) as uow:
        pause_when_limited(uow, batch.installation_id, limit)
        reschedule_failed(uow, batch, failed)
    codes = {error.code for _probe, error in failed}
    logger.warning("%d branches of installation %s could not be probed: %s", len(failed), batch.installation_id, codes)
