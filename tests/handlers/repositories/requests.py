"""How answers about repositories, and the rows behind them, are read."""

from typing import Any

from sqlalchemy.orm import Session

from models.repositories import Repository, WatchedBranch


def names(page: dict[str, Any]) -> list[str]:
    return [row["fullName"] for row in page["data"]]


def rows_of(session: Session, repository: Repository) -> dict[str, WatchedBranch]:
    session.expire_all()
    found = session.query(WatchedBranch).where(WatchedBranch.repository_id == repository.id)
    return {row.name: row for row in found}
