"""Echoes: webhooks about rulesets of frozen branches that say what we have written ourselves.

GitHub sends one for each of our writes, and all branches of the repository or organisation would be read again. What
people do is no echo, and neither is what another App makes different from what is recorded.
"""

from collections.abc import Collection

from sqlalchemy import select

from integrations.github.events import InstallationRefresh, RepositoryRefresh
from models.enforcement import FrozenBranchRuleset, OrganizationStop
from models.repositories import Repository
from rules.rulesets.frozen_branches import fingerprint, stop_of, wanted_ruleset
from services.core.unit_of_work import UnitOfWork


def is_echo(uow: UnitOfWork, request: InstallationRefresh | RepositoryRefresh, app_id: int) -> bool:
    """Return whether a webhook says of a ruleset what is recorded of it."""
    written, repositories = request.written, None
    if written is None:
        return False
    row: FrozenBranchRuleset | OrganizationStop | None
    if isinstance(request, RepositoryRefresh):
        of_repository = select(FrozenBranchRuleset).join(Repository).where(Repository.github_id == request.github_id)
        row = uow.session.scalar(of_repository.where(FrozenBranchRuleset.ruleset_id == written.ruleset_id))
    else:
        within = OrganizationStop.installation_id == request.installation_id
        row = uow.session.scalar(
            select(OrganizationStop).where(within, OrganizationStop.ruleset_id == written.ruleset_id)
        )
        repositories = () if row is None else _github_ids(uow, row.repository_ids)
    if row is None:
        return False
    recorded = wanted_ruleset(row.branch_names, stop=stop_of(row.stop_context, app_id), repositories=repositories)
    return fingerprint(recorded) == written.fingerprint


def _github_ids(uow: UnitOfWork, repository_ids: Collection[str]) -> Collection[int]:
    return uow.session.scalars(select(Repository.github_id).where(Repository.id.in_(repository_ids))).all()
