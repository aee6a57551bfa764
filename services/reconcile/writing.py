"""Writing: sending one batch of checks, and telling what became of each."""

from collections.abc import Sequence
from dataclasses import dataclass

from integrations.github import CheckAction, CheckWrite, GitHubError, InstallationClient
from rules.freezes.check_text import BUTTON, BUTTON_DESCRIPTION, REQUEST_EXCEPTION
from services.reconcile.judging import Decision, external_id

ASK = CheckAction(BUTTON, BUTTON_DESCRIPTION, REQUEST_EXCEPTION)
"""The button that requests an exception."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A decision that was sent: the check run it made, or the error."""

    decision: Decision
    check_run_id: int | None
    error: GitHubError | None


def send(client: InstallationClient, decisions: Sequence[Decision], details_url: str) -> list[Sent]:
    """Write the checks in one call; an error of the call is the error of each of them."""
    try:
        results = client.write_checks([_write(decision, details_url) for decision in decisions])
    except GitHubError as error:
        return [Sent(decision, None, error) for decision in decisions]
    return [
        Sent(decision, result.check_run_id, result.error) for decision, result in zip(decisions, results, strict=True)
    ]


def _write(decision: Decision, details_url: str) -> CheckWrite:
    key = decision.head.key
    return CheckWrite(
        repository_node_id=decision.head.repository_node_id,
        name=key.check_name,
        head_sha=key.sha,
        conclusion=decision.conclusion,
        title=decision.title,
        summary=decision.summary,
        external_id=external_id(decision.head.branch_id, decision.evaluation, decision.summary_hash),
        details_url=details_url,
        actions=(ASK,) if decision.button else (),
    )
