"""What is there when the contract is tried: real objects in place of the contract's example ids."""

from pathlib import Path
from typing import Any

from schemas.contract import CONTRACT_PATH
from tools.sandbox.clients import Client, Refused

EXAMPLE = "{}_06aq1m3k0v5t8c2n7d4e9f1g{}"


class Stage:
    """Sets up one organisation of a sandbox anew, through the service itself."""

    def __init__(self, service: Client, repositories: list[str]) -> None:
        self.service = service
        self.repositories = repositories

    def set_up(self, document: Path) -> None:
        """Enable every repository, start two freezes, and write the contract with the ids of what is there."""
        self._quietly("/v1/freezes/lift", {"scope": {"type": "organization"}})
        self.service.call("POST", "/v1/repos/enable", {"repositories": self.repositories})
        source = CONTRACT_PATH.read_text()
        for example, real in self._ids().items():
            source = source.replace(example, real)
        document.write_text(source)

    def _ids(self) -> dict[str, str]:
        repositories = {each["fullName"]: each["id"] for each in self.service.pages("/v1/repos")}
        web, api = (repositories[name] for name in self.repositories[:2])
        branches = [each["id"] for name in (web, api) for each in self.service.pages(f"/v1/repos/{name}/branches")]
        freezes = [self._freeze(name) for name in self.repositories[:2]]
        kinds = {"rep": (11, [web, api]), "wbr": (21, branches[:3]), "frz": (31, freezes)}
        return {
            EXAMPLE.format(kind, first + position): real
            for kind, (first, found) in kinds.items()
            for position, real in enumerate(found)
        }

    def _freeze(self, repository: str) -> str:
        scope = {"type": "repositories", "repositories": [repository]}
        freeze = self.service.call("POST", "/v1/freezes", {"scope": scope, "reason": "To be tried with anything"})
        return str(freeze["id"])

    def _quietly(self, path: str, body: Any) -> None:
        try:
            self.service.call("POST", path, body)
        except Refused as refused:
            if refused.status != 409:
                raise
