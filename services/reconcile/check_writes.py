"""Check writes: send a batch of updates to GitHub in one call, and return the result of each."""

from collections.abc import Sequence
from dataclasses import dataclass

from integrations.github import CheckAction, CheckWrite, GitHubError, InstallationClient
from rules.freezes.check_text import BUTTON, BUTTON_DESCRIPTION, REQUEST_EXCEPTION
from rules.freezes.pull_references import page_of_pulls
from services.reconcile.evaluation import CheckUpdate
from services.reconcile.heads import external_id

REQUEST_EXCEPTION_ACTION = CheckAction(BUTTON, BUTTON_DESCRIPTION, REQUEST_EXCEPTION)
"""The button on a check that requests an exception."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """An update that was sent: the check run that it created, or the error."""

    update: CheckUpdate
    check_run_id: int | None
    error: GitHubError | None


def write_checks(client: InstallationClient, updates: Sequence[CheckUpdate], web_url: str) -> list[WriteResult]:
    """Write the checks in one call; an error of the call is the error of each of them.

    Each leads to the page of its pull requests, at the address of our pages.
    """
    try:
        results = client.write_checks([_check_write(update, web_url) for update in updates])
    except GitHubError as error:
        return [WriteResult(update, None, error) for update in updates]
    return [
        WriteResult(update, result.check_run_id, result.error) for update, result in zip(updates, results, strict=True)
    ]


def _check_write(update: CheckUpdate, web_url: str) -> CheckWrite:
    key = update.head.key
    return CheckWrite(
        repository_node_id=update.head.repository_node_id,
        name=key.check_name,
        head_sha=key.sha,
        conclusion=update.conclusion,
        title=update.title,
        summary=update.summary,
        external_id=external_id(update.head.branch_id, update.evaluation, update.summary_hash),
        details_url=page_of_pulls(web_url, key.repository_id, update.head.numbers),
        actions=(REQUEST_EXCEPTION_ACTION,) if update.button else (),
    )
