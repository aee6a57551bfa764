"""Statements that run every few seconds, or for each webhook, find their rows by an index, however many there are."""

from typing import Any

import pytest
from sqlalchemy import TextClause, text

from app.database import make_engine
from services import receipts, webhooks
from services.enforcement import asking

HINT = {"repositories": [1], "names": ["main"], "read_back": [False], "now": "2026-01-01T00:00:00+00:00"}


@pytest.mark.parametrize(
    ("statement", "values", "index"),
    [
        pytest.param(receipts._INCOMPLETE, {}, "ix_freezes_incomplete", id="freezes without their receipt"),
        pytest.param(webhooks._MARK, HINT, "ix_repositories_github_id", id="branches that a webhook names"),
        pytest.param(
            asking._OF_REPOSITORY,
            {"github_id": 1, "now": HINT["now"]},
            "ix_repositories_github_id",
            id="branches of a repository whose rules were changed",
        ),
    ],
)
def test_rows_are_found_by_an_index(database: str, statement: TextClause, values: dict[str, Any], index: str) -> None:
    engine = make_engine(database, 1, "change_freeze_worker")
    with engine.connect() as connection:
        connection.execute(text("SET LOCAL enable_seqscan = off"))
        connection.execute(text("SET LOCAL enable_mergejoin = off"))
        plan = connection.execute(text(f"EXPLAIN {statement.text}"), values).scalars().all()
    engine.dispose()
    assert any(index in line for line in plan), "\n".join(plan)
