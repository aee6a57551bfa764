"""What people do at the simulated GitHub with whole repositories and with the App, as parts of state machines."""

from contextlib import suppress
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from rules.errors import ServiceError
from tests.faults.people_at_github import HOME, ActingMachine, told
from tests.faults.state_machines import BASES, some
from tests.harness.desk import Desk
from tools.fake_github.model import branches, installations, repositories
from tools.fake_github.model.records import Repository
from tools.fake_github.model.world import World

REPOSITORY_ACTS = ("archive", "rename", "transfer", "transfer", "delete", "delete and make again", "make again")
APP_ACTS = (
    "suspend",
    "unsuspend",
    "unsuspend",
    "cut",
    "permit",
    "one",
    "every",
    "every",
    "uninstall",
    "install",
    "install",
)
ELSEWHERE = "elsewhere"
"""An account without the App."""


class Repositories(ActingMachine):
    """People archive, rename, transfer and delete repositories, and make them again."""

    def __init__(self) -> None:
        super().__init__()
        self.harness.fake_github.world.add_account(ELSEWHERE, "Organization")
        self.successors: dict[int, tuple[int, set[str]]] = {}
        """By GitHub's id of a repository that was made again: that of the former one, and the freezes that covered it
        by a pattern."""

    @rule(which=some, how=st.sampled_from(REPOSITORY_ACTS), told=told)
    def change_a_repository(self, which: int, how: str, told: bool) -> None:
        """Archive a repository, rename or transfer it, or back; delete it, or make those again that were deleted."""
        world, found = self.harness.fake_github.world, self.repository(which)
        if found is not None and how == "archive":
            self.change([found], repositories.set_archived, found, archived=not found.archived)
        elif found is not None and how == "rename":
            name = found.name.removesuffix("-2") if found.name.endswith("-2") else f"{found.name}-2"
            self.change([found], repositories.rename, found, name)
        elif found is not None and how == "transfer":
            owner = ELSEWHERE if world.owner(found).login == HOME else HOME
            self.change([found], repositories.transfer, found, world.logins[owner])
        elif found is not None and how.startswith("delete"):
            self.change([found], repositories.delete, found)
        if how.endswith("make again"):
            self.make_repositories_again()
        self.tell_if(told)

    def make_repositories_again(self) -> None:
        """Make others under the names of those that were deleted, with branches and pull requests like theirs."""
        for place, former in enumerate(self.repositories):
            if former not in self.existing:
                self.act(self._make_again, place, former)

    def _make_again(self, world: World, actor: Any, place: int, former: Repository) -> None:
        made = repositories.create_repository(world, actor, world.logins[HOME], former.name)
        self.repositories[place] = made
        covering = self.harness.sql(
            "SELECT DISTINCT t.freeze_id FROM freeze_targets t JOIN watched_branches b ON b.id = t.branch_id "
            "JOIN repositories r ON r.id = b.repository_id JOIN freezes f ON f.id = t.freeze_id "
            "WHERE r.github_id = :id AND f.scope ->> 'type' IN ('organization', 'glob') AND t.operation = 'apply'",
            id=former.id,
        )
        self.successors[made.id] = former.id, {row[0] for row in covering} & set(self.running())
        for base in BASES[1:]:
            branches.create_branch(world, actor, made, base, made.branches["main"])
        for base in ("main", "release/1"):
            self.people.propose(made, base)

    def uncovered_successors(self, frozen: set[tuple[int, str]]) -> list[int]:
        """Return the repositories made again whose default branch is not frozen, though the former one still would be.

        `frozen` are the branches that the service takes as frozen, after everything was read. It cannot know one that
        has another name than the former one had when it was last read.
        """
        running = set(self.running())
        names = {row.github_id: row.name for row in self.harness.sql("SELECT github_id, name FROM repositories")}
        return [
            number
            for number, (former, covering) in self.successors.items()
            if covering & running
            and self.hears(number)
            and names.get(number) == names.get(former)
            and (number, "main") not in frozen
        ]


class Installations(ActingMachine):
    """People suspend, uninstall and install the App, and choose its repositories and permissions."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk.of(self.harness)

    @rule(which=some, how=st.sampled_from(APP_ACTS), told=told)
    def change_the_app(self, which: int, how: str, told: bool) -> None:
        """Suspend the App, cut its permissions or its repositories, uninstall it; or take that back."""
        found = self.installation
        if how == "install":
            self.install_the_app()
        elif found is not None and how in {"suspend", "unsuspend"}:
            self.act(installations.suspend, found, suspended=how == "suspend")
        elif found is not None and how in {"cut", "permit"}:
            left_out = {"administration"} if how == "cut" else set()
            permissions = {name: level for name, level in installations.PERMISSIONS.items() if name not in left_out}
            self.act(installations.accept_permissions, found, permissions)
        elif found is not None and how in {"one", "every"}:
            mine = [each for each in self.existing if self.harness.fake_github.world.owner(each).login == HOME]
            chosen = None if how == "every" else mine[which % 2 : which % 2 + 1]
            self.change(mine, installations.choose_repositories, found, chosen)
        elif found is not None:
            self.change(self.existing, installations.uninstall, found)
        self.tell_if(told)

    def install_the_app(self) -> None:
        """Install the App, unless it is, and claim the installation."""
        found = self.installation
        if found is None or not self.harness.sql("SELECT FROM installations WHERE id = :id", id=found.id):
            self.harness.fake_github.faults.clear()
            with suppress(ServiceError):
                self.desk.claim(self.desk.install())
