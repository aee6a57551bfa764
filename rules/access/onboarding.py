"""Onboarding: six steps up to the first freeze, each done or with the next action, derived from facts.

A step is never marked as done by hand. A step that was done can become undone, for example when the installation is
removed, regardless of later steps.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rules import web_addresses


@dataclass(frozen=True, slots=True)
class OnboardingState:
    """The state of an organisation's set-up."""

    organization: str
    """The name of the organisation."""
    installation: str = "none"
    """State of the installation: `none`, `pending`, `active`, `suspended` or `removed`."""
    account: str = ""
    """The account at GitHub in which the App is installed."""
    missing_permissions: Sequence[str] = ()
    """Permissions that the App needs and was not granted, such as `checks:write`."""
    covered: int = 0
    """How many repositories the installation covers."""
    enabled: int = 0
    """How many of them are enabled."""
    watched: int = 0
    """How many branches of enabled repositories are watched."""
    unenforced: int = 0
    """How many of these are not known to be blocked by a freeze."""
    frozen_once: bool = False
    """True if the organisation ever had a freeze."""


@dataclass(frozen=True, slots=True)
class Action:
    """An operation of the contract that completes a step, and the page on which a person does it."""

    operation_id: str
    method: str
    path: str
    page: str


@dataclass(frozen=True, slots=True)
class Step:
    """One step; `action` is None once it is done."""

    name: str
    done: bool
    message: str
    action: Action | None = None


_BOOTSTRAP = Action("bootstrap_organization", "POST", "/v1/onboarding/bootstrap", web_addresses.HOME)
_INSTALL = Action("get_install_url", "GET", "/v1/github/install-url", web_addresses.INSTALLED)
_CLAIM = Action("claim_installation", "POST", "/v1/installations/claim", web_addresses.INSTALLED)
_STATUS = Action("get_installation_status", "GET", "/v1/installations/status", web_addresses.INSTALLED)
_SYNC = Action("sync_repositories", "POST", "/v1/repos/sync", web_addresses.REPOSITORIES)
_ENABLE = Action("enable_repositories", "POST", "/v1/repos/enable", web_addresses.REPOSITORIES)
_WATCH = Action("watch_branch", "POST", "/v1/repos/{repoId}/branches", web_addresses.REPOSITORIES)
_SET_UP = Action("setup_enforcement", "POST", "/v1/enforcement/setup", web_addresses.ENFORCEMENT_SETUP)
_FREEZE = Action("create_freeze", "POST", "/v1/freezes", web_addresses.NEW_FREEZE)


def steps(facts: OnboardingState | None) -> list[Step]:
    """Return all steps in order; `facts` is None if no organisation is selected."""
    return list(_steps(facts))


def _steps(facts: OnboardingState | None) -> Iterator[Step]:
    if facts is None:
        message = "No organisation selected. Create one, or select one of yours."
        yield Step("organization", False, message, _BOOTSTRAP)
        facts = OnboardingState("")
    else:
        yield Step("organization", True, f"You are working in {facts.organization}.")
    yield _installation(facts)
    yield _repositories(facts)
    yield _branches(facts)
    yield _enforcement(facts)
    if facts.frozen_once:
        yield Step("first_freeze", True, "First freeze started.")
    else:
        message = "Start a freeze. You see what it would cover before it starts, and can lift it at any time."
        yield Step("first_freeze", False, message, _FREEZE)


def _installation(facts: OnboardingState) -> Step:
    missing = ", ".join(facts.missing_permissions)
    todo = {
        "none": ("Install the GitHub App in the account that owns your repositories.", _INSTALL),
        "pending": ("Install the GitHub App at GitHub, which leads you back to claim the installation.", _CLAIM),
        "suspended": (
            f"The GitHub App is suspended in {facts.account}. An owner must unsuspend it at GitHub.",
            _STATUS,
        ),
        "removed": ("The GitHub App was uninstalled. Install it again.", _INSTALL),
    }
    if facts.installation in todo:
        message, action = todo[facts.installation]
        return Step("installation", False, message, action)
    if missing:
        message = f"The GitHub App lacks permissions in {facts.account}: {missing}. An owner must grant them."
        return Step("installation", False, message, _STATUS)
    return Step("installation", True, f"The GitHub App is installed in {facts.account}.")


def _repositories(facts: OnboardingState) -> Step:
    if facts.enabled:
        return Step("repositories", True, f"{_count(facts.enabled, 'repository', 'repositories')} enabled.")
    if facts.covered:
        message = f"Enable repositories. The GitHub App covers {facts.covered}."
        return Step("repositories", False, message, _ENABLE)
    return Step("repositories", False, "Sync the repositories that the GitHub App covers.", _SYNC)


def _branches(facts: OnboardingState) -> Step:
    if facts.watched:
        return Step("branches", True, f"{_count(facts.watched, 'branch', 'branches')} watched.")
    message = "Watch a branch of an enabled repository. Enabling a repository watches its default branch."
    return Step("branches", False, message, _WATCH)


def _enforcement(facts: OnboardingState) -> Step:
    if facts.watched and not facts.unenforced:
        return Step("enforcement", True, "Rules require our check on all watched branches.")
    message = "Once branches are watched, set up the rules that require our check."
    if facts.watched:
        unenforced = _count(facts.unenforced, "branch is", "branches are")
        message = f"Set up the rules that require our check: {unenforced} not known to be blocked by a freeze."
    return Step("enforcement", False, message, _SET_UP)


def _count(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
