"""From nothing to the first freeze: six steps, each done or what to do next, from facts alone.

Nobody ticks a step off: one that was done and is not any more, such as an installation that was removed, is to be done
again, whatever comes after it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Facts:
    """What an organisation has."""

    organization: str
    """Its name."""
    installation: str = "none"
    """State of its installation: `none`, `pending`, `active`, `suspended` or `removed`."""
    account: str = ""
    missing_permissions: Sequence[str] = ()
    covered: int = 0
    """Repositories that the installation covers, and how many of them are enabled."""
    enabled: int = 0
    watched: int = 0
    """Watched branches of enabled repositories, and how many of them a freeze is not known to block."""
    unenforced: int = 0
    frozen_once: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """An operation of the contract that brings a step on."""

    operation_id: str
    method: str
    path: str


@dataclass(frozen=True, slots=True)
class Step:
    """One step; `action` is None once it is done."""

    name: str
    done: bool
    message: str
    action: Action | None = None


_BOOTSTRAP = Action("bootstrap_organization", "POST", "/v1/onboarding/bootstrap")
_INSTALL = Action("get_install_url", "GET", "/v1/github/install-url")
_CLAIM = Action("claim_installation", "POST", "/v1/installations/claim")
_STATUS = Action("get_installation_status", "GET", "/v1/installations/status")
_SYNC = Action("sync_repositories", "POST", "/v1/repos/sync")
_ENABLE = Action("enable_repositories", "POST", "/v1/repos/enable")
_WATCH = Action("watch_branch", "POST", "/v1/repos/{repoId}/branches")
_SET_UP = Action("setup_enforcement", "POST", "/v1/enforcement/setup")
_FREEZE = Action("create_freeze", "POST", "/v1/freezes")


def steps(facts: Facts | None) -> list[Step]:
    """Return every step in its order; `facts` is None for somebody who acts in no organisation."""
    return list(_steps(facts))


def _steps(facts: Facts | None) -> Iterator[Step]:
    if facts is None:
        told = "You act in no organisation. This makes one, or has you act in one of yours."
        yield Step("organization", False, told, _BOOTSTRAP)
        facts = Facts("")
    else:
        yield Step("organization", True, f"You act in {facts.organization}.")
    yield _installation(facts)
    yield _repositories(facts)
    yield _branches(facts)
    yield _enforcement(facts)
    if facts.frozen_once:
        yield Step("first_freeze", True, "A freeze was started.")
    else:
        yield Step("first_freeze", False, "Start a freeze; POST /v1/scope/preview tells what it would reach.", _FREEZE)


def _installation(facts: Facts) -> Step:
    missing = ", ".join(facts.missing_permissions)
    todo = {
        "none": ("Install the GitHub App: open the address that this gives.", _INSTALL),
        "pending": ("Install the GitHub App at the address you were given, then claim the installation.", _CLAIM),
        "suspended": (f"The App is suspended in {facts.account}: an owner has to let it work again there.", _STATUS),
        "removed": ("The App was uninstalled. Install it again: open the address that this gives.", _INSTALL),
    }
    if facts.installation in todo:
        message, action = todo[facts.installation]
        return Step("installation", False, message, action)
    if missing:
        told = f"An owner of {facts.account} has to grant the App what it is missing: {missing}."
        return Step("installation", False, told, _STATUS)
    return Step("installation", True, f"The App is installed in {facts.account}.")


def _repositories(facts: Facts) -> Step:
    if facts.enabled:
        return Step("repositories", True, f"{_counted(facts.enabled, 'repository', 'repositories')} enabled.")
    if facts.covered:
        told = f"Enable repositories: the App covers {facts.covered}."
        return Step("repositories", False, told, _ENABLE)
    return Step("repositories", False, "Have the repositories read that the App covers.", _SYNC)


def _branches(facts: Facts) -> Step:
    if facts.watched:
        return Step("branches", True, f"{_counted(facts.watched, 'branch', 'branches')} watched.")
    told = "Watch a branch of an enabled repository; enabling one watches its default branch."
    return Step("branches", False, told, _WATCH)


def _enforcement(facts: Facts) -> Step:
    if facts.watched and not facts.unenforced:
        return Step("enforcement", True, "Every watched branch is blocked by a freeze.")
    told = "Once branches are watched, have the rules written that require our check."
    if facts.watched:
        unenforced = _counted(facts.unenforced, "branch is", "branches are")
        told = f"Have the rules written that require our check: {unenforced} not known to be blocked by a freeze."
    return Step("enforcement", False, told, _SET_UP)


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
