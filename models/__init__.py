"""SQLAlchemy tables and their queries."""

from models import (
    api_keys,
    attention,
    audit,
    billing,
    enforcement,
    exceptions,
    freezes,
    github_api_usage,
    identity,
    installations,
    leases,
    organizations,
    pull_requests,
    repositories,
    requests,
    schedules,
    stripe,
)
from models.base import Base

__all__ = [
    "Base",
    "api_keys",
    "attention",
    "audit",
    "billing",
    "enforcement",
    "exceptions",
    "freezes",
    "github_api_usage",
    "identity",
    "installations",
    "leases",
    "organizations",
    "pull_requests",
    "repositories",
    "requests",
    "schedules",
    "stripe",
]
