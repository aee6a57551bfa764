"""The client of GitHub: one `GitHub` per process, one `InstallationClient` per installation of the App.

It makes no decisions about freezes: it reads GitHub's state, writes the given checks, and turns every failure into a
`GitHubError` with a code of the error catalogue.
"""

from integrations.github.activity import Activity, PullOfCommit
from integrations.github.application import GitHub
from integrations.github.budget import Allowance, Budget
from integrations.github.client import InstallationClient
from integrations.github.errors import INACTIVE_INSTALLATION, ErrorKind, GitHubError
from integrations.github.rule_facts import FactKinds
from integrations.github.settings import CALL_DEADLINE_SECONDS, GitHubSettings, graphql_url_of
from integrations.github.values import (
    BranchHeads,
    BranchInfo,
    BranchRef,
    CheckAction,
    CheckResult,
    CheckState,
    CheckWrite,
    InstallationInfo,
    PullHead,
    QueueEntry,
    RepositoryInfo,
    RepositoryTips,
)

__all__ = [
    "CALL_DEADLINE_SECONDS",
    "INACTIVE_INSTALLATION",
    "Activity",
    "Allowance",
    "BranchHeads",
    "BranchInfo",
    "BranchRef",
    "Budget",
    "CheckAction",
    "CheckResult",
    "CheckState",
    "CheckWrite",
    "ErrorKind",
    "FactKinds",
    "GitHub",
    "GitHubError",
    "GitHubSettings",
    "InstallationClient",
    "InstallationInfo",
    "PullHead",
    "PullOfCommit",
    "QueueEntry",
    "RepositoryInfo",
    "RepositoryTips",
    "graphql_url_of",
]
