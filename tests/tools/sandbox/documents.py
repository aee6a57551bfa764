"""The curl commands of the documents, and what the answers give to later ones."""

import re

from tests.tools.sandbox.running import ROOT

REUSED_VALUES = {
    r"frz_[0-9a-v]{26}": r'^{"id":"(frz_\w+)"',
    r"exc_\w+…": r'"id":"(exc_\w+)"',
    r"svc_session_\w+…": r'"(svc_session_[\w-]+)"',
    r"key_\w+…": r'"apiKey":\{"id":"(key_\w+)"',
    r"(?<=device_code=)\w+…": r'"device_code":"([\w-]+)"',
}
"""How the documents show a value of an answer, and where the answer has it."""


def reused_values(answer: str) -> dict[str, str]:
    """Return the values of an answer that later commands need."""
    found = {shown: re.search(pattern, answer, re.MULTILINE) for shown, pattern in REUSED_VALUES.items()}
    return {shown: match[1] for shown, match in found.items() if match}


def with_values(command: str, known: dict[str, str]) -> str:
    """Return a documented command with values of earlier answers."""
    for shown, value in known.items():
        command = re.sub(shown, value, command)
    return command


DOCUMENTED_STATUSES: dict[str, list[int]] = {
    "README.md": [200, 201, 200, 200],
    "docs/guide/freezes.md": [422],
    "docs/guide/exceptions.md": [201, 201, 200, 200, 200],
    "docs/guide/audit.md": [200, 200],
    "docs/guide/overview.md": [200],
    "docs/guide/enforcement.md": [200, 202, 200, 409, 202],
    "docs/guide/schedules.md": [201, 200],
    "docs/guide/people-and-keys.md": [200, 200, 200, 201, 200],
    "docs/guide/cli-sign-in.md": [200, 400],
    "docs/guide/plans.md": [200, 200, 200, 200, 200],
    "docs/guide/mcp.md": [200],
    "docs/guide/connections.md": [200, 200],
    "docs/guide/compat.md": [200, 200, 200],
    "docs/guide/automation.md": [201],
    "docs/guide/notifications.md": [200],
    "docs/guide/webhooks.md": [201],
    "docs/guide/slack.md": [201],
}
"""The documents that show commands, in the order in which a reader runs them, with the statuses that they promise."""


def documented_commands(document: str) -> list[str]:
    """Return the curl commands of a document, each with its continuation lines."""
    lines = iter((ROOT / document).read_text().splitlines())
    found = []
    for line in lines:
        if line.startswith("$ curl "):
            command = line.removeprefix("$ ")
            while command.endswith("\\") or command.count("'") % 2:
                command += "\n" + next(lines)
            found.append(command)
    return found
