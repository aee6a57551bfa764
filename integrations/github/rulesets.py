"""Rulesets of a repository or an organisation, as GitHub's own JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from integrations.github.calls import Calls, path
from integrations.github.errors import ErrorKind, GitHubError


@dataclass(frozen=True, slots=True)
class Rulesets:
    """The rulesets of one owner: `/repos/{owner}/{name}` or `/orgs/{org}`."""

    calls: Calls
    owner_path: str

    def list(self) -> list[dict[str, Any]]:
        """Return all rulesets in short form, including those of higher levels."""
        return list(self.calls.get_lists(self.owner_path + "/rulesets"))

    def get(self, ruleset_id: int) -> dict[str, Any]:
        """Return one ruleset in full: rules, conditions and, if visible to us, bypass actors."""
        return self.calls.get_object(self._path(ruleset_id))

    def create(self, ruleset: Mapping[str, Any]) -> dict[str, Any]:
        """Create a ruleset and return it."""
        return self.calls.write("POST", self.owner_path + "/rulesets", dict(ruleset))

    def update(self, ruleset_id: int, ruleset: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the given properties of a ruleset and return it."""
        return self.calls.write("PUT", self._path(ruleset_id), dict(ruleset))

    def delete(self, ruleset_id: int) -> None:
        """Delete a ruleset; one that is gone already is deleted."""
        try:
            self.calls.delete(self._path(ruleset_id))
        except GitHubError as error:
            if error.kind is not ErrorKind.NOT_FOUND:
                raise

    def _path(self, ruleset_id: int) -> str:
        return self.owner_path + "/rulesets" + path(ruleset_id)


def repository_rulesets(calls: Calls, owner: str, name: str) -> Rulesets:
    """Return the rulesets of a repository."""
    return Rulesets(calls, path("repos", owner, name))


def organization_rulesets(calls: Calls, organization: str) -> Rulesets:
    """Return the rulesets of an organisation."""
    return Rulesets(calls, path("orgs", organization))
