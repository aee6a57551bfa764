"""The use of GitHub's API by installation, so that all workers together keep within its rate limits."""

from datetime import datetime

from sqlalchemy import BigInteger, Identity, Index
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base


class GitHubApiUsage(Base):
    """One call: its points, and how much content it creates. Kept for an hour."""

    __tablename__ = "github_api_usage"

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    installation_id: Mapped[int] = mapped_column(BigInteger)
    at: Mapped[datetime]
    points: Mapped[int]
    content: Mapped[int]

    __table_args__ = (Index("ix_github_api_usage_recent", "installation_id", "at"),)
