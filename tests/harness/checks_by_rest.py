"""Checks that are created by REST, as others do it; the service creates them by GraphQL."""

from dataclasses import asdict

from integrations.github import CheckWrite, InstallationClient
from integrations.github.calls import path


def create_check(client: InstallationClient, owner: str, name: str, write: CheckWrite) -> int:
    """Create a check run with the token of an installation, and return its id."""
    body = {
        "name": write.name,
        "head_sha": write.head_sha,
        "status": "completed",
        "conclusion": write.conclusion,
        "external_id": write.external_id,
        "output": {"title": write.title, "summary": write.summary},
        "actions": [asdict(action) for action in write.actions],
    }
    if write.details_url is not None:
        body["details_url"] = write.details_url
    number: int = client._calls.write("POST", path("repos", owner, name, "check-runs"), body)["id"]
    return number
