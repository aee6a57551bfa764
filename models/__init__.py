"""SQLAlchemy tables and their queries."""

from models import api_keys, audit, freezes, installations, organizations, pull_requests, repositories, requests
from models.base import Base

__all__ = [
    "Base",
    "api_keys",
    "audit",
    "freezes",
    "installations",
    "organizations",
    "pull_requests",
    "repositories",
    "requests",
]
