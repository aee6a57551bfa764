"""Which pull requests may merge while freezes and exceptions come and go: the whole of it, in a few lines."""

from dataclasses import dataclass, field
from datetime import datetime

from rules.errors import ServiceError
from tools.fake_github.model.records import PullRequest, Repository


def only(error: ServiceError, *codes: str) -> None:
    """Let a refusal pass that has one of these codes."""
    if error.code not in codes:
        raise error


@dataclass
class Frozen:
    """A freeze of the model."""

    covers: set[tuple[str, str]]
    until: datetime | None
    exceptions: bool


@dataclass
class Granted:
    """An exception of the model."""

    freeze: str
    pull: PullRequest
    base: str
    pin: str | None
    until: datetime | None


@dataclass
class Model:
    """What may merge: a pull request that has an exception from every freeze, as have all that share its check."""

    freezes: dict[str, Frozen] = field(default_factory=dict)
    grants: dict[str, Granted] = field(default_factory=dict)

    def covering(self, repository: Repository, pull: PullRequest, now: datetime) -> set[str]:
        place = (repository.name, pull.base_ref)
        return {
            name
            for name, freeze in self.freezes.items()
            if place in freeze.covers and (freeze.until is None or now < freeze.until)
        }

    def passed(self, pull: PullRequest, now: datetime) -> set[str]:
        theirs = [each for each in self.grants.values() if each.pull is pull and each.base == pull.base_ref]
        return {
            each.freeze
            for each in theirs
            if each.pin in {None, pull.head_sha} and (each.until is None or now < each.until)
        }

    def allows(self, repository: Repository, pull: PullRequest, now: datetime) -> bool:
        return all(
            self.covering(repository, other, now) <= self.passed(other, now)
            for other in repository.pulls.values()
            if (other.state, other.head_sha, other.base_ref) == ("open", pull.head_sha, pull.base_ref)
        )

    def see_pushes(self) -> None:
        """End what is pinned to a commit that is not the head any more."""
        self.grants = {name: each for name, each in self.grants.items() if each.pin in {None, each.pull.head_sha}}
