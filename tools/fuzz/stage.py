"""What is there when the contract is tried: real objects in place of the contract's example ids."""

import json
from pathlib import Path
from typing import Any

from schemas.contract import load_contract
from tools.sandbox.clients import Client, Refused

EXAMPLE = "{}_06aq1m3k0v5t8c2n7d4e9f1g{}"
FREEZE, SCHEDULE = EXAMPLE.format("frz", 31), EXAMPLE.format("sch", "a1")


class Stage:
    """Sets up one organisation of a sandbox anew, through the service itself."""

    def __init__(self, service: Client, repositories: list[str]) -> None:
        self.service = service
        self.repositories = repositories

    def set_up(self, file: Path, organization_id: str) -> str:
        """Enable every repository, start freezes, write the contract with the ids of what is there, return a freeze."""
        self._unless_done("/v1/freezes/lift", {"scope": {"type": "organization"}})
        self.service.call("POST", "/v1/repos/enable", {"repositories": self.repositories})
        for name in self.repositories:
            self._unless_done(f"/v1/repos/{name.replace('/', '%2F')}/branches", {"name": "main"})
        text = json.dumps(load_contract().document)
        ids = self._ids() | {EXAMPLE.format("org", "01"): organization_id}
        for example, real in ids.items():
            text = text.replace(example, real)
        file.write_text(text)
        return ids[FREEZE]

    def _ids(self) -> dict[str, str]:
        """Return example ids and what stands in for them."""
        repositories = {each["fullName"]: each["id"] for each in self.service.pages("/v1/repos")}
        web, api = (repositories[name] for name in self.repositories[:2])
        branches = [each["id"] for name in (web, api) for each in self.service.pages(f"/v1/branches?repo={name}")]
        freezes = [self.freeze(), self.freeze()]
        kinds = {"rep": (11, [web, api]), "wbr": (21, branches[:3]), "frz": (31, freezes)}
        found = {
            EXAMPLE.format(kind, first + position): real
            for kind, (first, found) in kinds.items()
            for position, real in enumerate(found)
        }
        return found | {SCHEDULE: self.schedule()}

    def schedule(self) -> str:
        """Make a schedule that freezes nothing before long, and return its id."""
        terms = {
            "name": "To be tried with anything",
            "scope": {"type": "organization"},
            "recurrence": {"frequency": "yearly", "byMonth": [2], "byMonthDay": [28], "startDate": "2026-01-01"},
            "window": {"startTime": "03:00", "endTime": "03:01"},
            "reason": "To be tried with anything",
            "allowOverlap": True,
        }
        return str(self.service.call("POST", "/v1/schedules", terms)["id"])

    def freeze(self) -> str:
        """Start a freeze of a repository that no example names, and return its id."""
        scope = {"type": "repositories", "repositories": self.repositories[-1:]}
        freeze = self.service.call("POST", "/v1/freezes", {"scope": scope, "reason": "To be tried with anything"})
        return str(freeze["id"])

    def _unless_done(self, path: str, body: Any) -> None:
        try:
            self.service.call("POST", path, body)
        except Refused as refused:
            if refused.status != 409:  # nothing is frozen; it is watched
                raise
