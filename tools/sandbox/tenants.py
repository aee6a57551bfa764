"""The organisations of the sandbox, as data: two that use the service, and one that can connect to it."""

from dataclasses import dataclass
from itertools import cycle, islice

from rules.access.permissions import ROLES
from rules.freezes.check_names import PREFIX, check_name

APP_ID = 4207
APP_SLUG = "change-freeze"
AUTO_WATCH = ("release/*",)
SCOPES = tuple(
    f"{noun}:{verb}"
    for noun, verbs in {
        "freeze": ("read", "write"),
        "repo": ("read", "write"),
        "schedule": ("read", "write"),
        "exception": ("read", "write"),
        "audit": ("read",),
        "billing": ("read", "write"),
    }.items()
    for verb in verbs
)
KEYS = {"all": SCOPES} | {scope: (scope,) for scope in SCOPES}
"""Name of a key → its scopes."""
PEOPLE = {"owner": "Olive Owner", "admin": "Adam Admin", "member": "Mary Member", "viewer": "Victor Viewer"}
assert set(PEOPLE) == set(ROLES)
PASSWORD = "seven green bicycles"  # noqa: S105 - of people who are only here; their addresses are like owner@acme.example

SLACK_USERS = {"acme": "U0ADA", "globex": "U1HANK"}
"""Slug of an organisation → who installs the app in its workspace of the simulated Slack."""

TITLES = (
    "Retry failed uploads",
    "Show totals in the customer's currency",
    "Update dependencies",
    "Make the search index smaller",
    "Fix a rounding error",
    "Translate error messages",
    "Remove the old settings page",
)


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request that GitHub starts with."""

    title: str
    head: str
    base: str


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository that GitHub starts with."""

    name: str
    branches: tuple[str, ...]
    pulls: tuple[PullRequest, ...]


@dataclass(frozen=True, slots=True)
class Tenant:
    """An organisation, here and at GitHub."""

    slug: str
    name: str
    plan: str
    installation_id: int
    repositories: tuple[Repository, ...]
    has_rulesets: bool = True
    """True if rulesets at GitHub require its checks from the beginning, and its administrator has authorised the
    service to write rulesets; otherwise people set enforcement up."""

    @property
    def full_names(self) -> list[str]:
        """Every repository as `owner/name`."""
        return [f"{self.slug}/{repository.name}" for repository in self.repositories]


def required_checks(tenant: Tenant) -> dict[str, str]:
    """Return what GitHub's rules require: branch pattern of a rule → name of the check.

    The release branches have rules of their own besides that of their pattern, which covers those yet to come.
    """
    releases = sorted({branch for repository in tenant.repositories for branch in repository.branches[1:]})
    return {"refs/heads/main": check_name("main")} | {
        f"refs/heads/{name}": PREFIX + name for name in (*AUTO_WATCH, *releases)
    }


def _repository(name: str, pulls: int, releases: tuple[str, ...] = ()) -> Repository:
    titles = islice(cycle(TITLES), len(name) % len(TITLES), None)
    bases = islice(cycle(("main", "main", *releases)), pulls)
    made = [
        PullRequest(title, f"topic/{number}", base)
        for number, (title, base) in enumerate(zip(titles, bases, strict=False), start=1)
    ]
    return Repository(name, ("main", *releases), tuple(made))


def _with_hotfix(repository: Repository, release: str) -> Repository:
    """Add two pull requests that share one head commit: a fix for the default branch and for a release."""
    hotfix = (
        PullRequest("Fix the session's expiry", "hotfix/session-expiry", "main"),
        PullRequest(f"Fix the session's expiry in {release}", "hotfix/session-expiry", release),
    )
    return Repository(repository.name, repository.branches, (*repository.pulls, *hotfix))


TENANTS = (
    Tenant(
        "acme",
        "Acme",
        "business",
        1001,
        (
            _with_hotfix(_repository("web", 5, ("release/1.x", "release/2.x")), "release/2.x"),
            _repository("api", 5, ("release/1.x",)),
            _repository("payments", 5, ("release/1.x",)),
            _repository("mobile", 4),
            _repository("search", 4),
            _repository("identity", 4),
            _repository("notifications", 3),
            _repository("billing", 3),
            _repository("data-pipeline", 3),
            _repository("design-system", 3),
            _repository("infra", 2),
            _repository("docs", 2),
        ),
    ),
    Tenant(
        "globex",
        "Globex",
        "free",
        1002,
        (_repository("shop", 3), _repository("app", 2), _repository("site", 1)),
        has_rulesets=False,
    ),
)

NEWCOMER = ("initech", (_repository("portal", 2), _repository("reports", 1)))
"""Login and repositories of an organisation where the App is not installed: anyone who signs up can connect it."""
