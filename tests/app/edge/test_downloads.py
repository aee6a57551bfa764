"""Connections of long answers: what one sees, that it cannot write, and that there are few."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import psycopg
import pytest
from sqlalchemy import create_engine, text

from app.edge.downloads import MAX_DOWNLOADS, MAX_DOWNLOADS_PER_ORGANIZATION, DatabaseDownload, DatabaseDownloads
from rules.errors import ServiceError
from services.audit import export
from services.audit.filters import AuditFilters, conditions_for
from tests import factories

T = TypeVar("T")
FILL = """
    INSERT INTO organizations (id, name, slug, settings, created_at)
    SELECT 'org_' || n, 'Acme', 'acme-' || n, '{}', now() FROM generate_series(1, 2) n;
    INSERT INTO audit_entries (id, organization_id, at, action, actor, source, target, details)
    SELECT 'aud_' || n, 'org_' || mod(n, 2) + 1, now() - n * interval '1 minute', 'freeze.started', '{}', 'api',
           '{}', '{}'
    FROM generate_series(1, 6000) n;
    ANALYZE audit_entries;
"""
COUNT = "SELECT count(*) AS n FROM audit_entries"


@pytest.fixture
def filled(own_database: str) -> str:
    engine = create_engine(own_database, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(FILL)
    engine.dispose()
    return own_database


def with_downloads(database_url: str, do: Callable[[DatabaseDownloads], Awaitable[T]]) -> T:
    async def run() -> T:
        downloads = DatabaseDownloads(database_url)
        try:
            return await do(downloads)
        finally:
            await downloads.close()

    return asyncio.run(run())


def with_download(database_url: str, do: Callable[[DatabaseDownload], Awaitable[T]]) -> T:
    async def run(downloads: DatabaseDownloads) -> T:
        return await do(await downloads.open("org_1"))

    return with_downloads(database_url, run)


def test_download_reads_only_rows_of_its_organization(filled: str) -> None:
    async def count(download: DatabaseDownload) -> Any:
        return (await download.fetch(COUNT))[0]["n"]

    assert with_download(filled, count) == 3000


def test_download_cannot_write(filled: str) -> None:
    async def write(download: DatabaseDownload) -> None:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            await download.fetch("UPDATE organizations SET name = 'x' RETURNING id")

    with_download(filled, write)


def test_download_reads_one_snapshot_of_the_database(filled: str) -> None:
    async def look_twice(download: DatabaseDownload) -> tuple[Any, Any]:
        before = await download.fetch(COUNT)
        engine = create_engine(filled, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(
                text(
                    "INSERT INTO audit_entries (id, organization_id, at, action, actor, source, target, details) "
                    "VALUES ('aud_0', 'org_1', now(), 'freeze.started', '{}', 'api', '{}', '{}')"
                )
            )
        engine.dispose()
        return before, await download.fetch(COUNT)

    before, after = with_download(filled, look_twice)
    assert before == after


def test_export_query_streams_rows_without_sorting(filled: str) -> None:
    since = factories.now().replace(year=2000)
    for filters in (AuditFilters(), AuditFilters(action="freeze.started"), AuditFilters(source="api", actor_id="x")):
        query, values = export.compiled(export.entries(conditions_for(since, "org_1", filters)))

        async def explain(download: DatabaseDownload, query: str = query, values: Any = values) -> str:
            return "\n".join(row["QUERY PLAN"] for row in await download.fetch(f"EXPLAIN {query}", values))

        plan = with_download(filled, explain)
        assert "Sort" not in plan, plan
        assert "Index" in plan, plan


def test_downloads_are_limited_per_organization_and_process(filled: str) -> None:
    async def open_many(downloads: DatabaseDownloads) -> list[ServiceError]:
        running = [await downloads.open("org_1") for _ in range(MAX_DOWNLOADS_PER_ORGANIZATION)]
        refusals: list[ServiceError] = []
        for organization in ("org_1", *("org_2",) * MAX_DOWNLOADS_PER_ORGANIZATION, "org_2"):
            try:
                running.append(await downloads.open(organization))
            except ServiceError as error:
                refusals.append(error)
        assert len(running) == MAX_DOWNLOADS
        await running[0].close()
        await downloads.open("org_1")
        return refusals

    refusals = with_downloads(filled, open_many)
    assert [error.code for error in refusals] == ["rate_limited", "busy"]
    assert all(error.retry_after for error in refusals)


def test_failed_connection_does_not_occupy_a_download_slot() -> None:
    async def try_often(downloads: DatabaseDownloads) -> None:
        for _ in range(MAX_DOWNLOADS + 1):
            with pytest.raises(psycopg.OperationalError):
                await downloads.open("org_1")

    with_downloads("postgresql://nobody@127.0.0.1:1/nothing", try_often)


def test_waiting_downloads_are_cancelled_at_shutdown(filled: str) -> None:
    async def end_while_they_wait(downloads: DatabaseDownloads) -> list[BaseException | None]:
        async def read(download: DatabaseDownload) -> None:
            async for _row in download.copy("COPY (SELECT pg_sleep(60)) TO STDOUT"):
                pass

        running = [
            asyncio.create_task(read(await downloads.open("org_1"))) for _ in range(MAX_DOWNLOADS_PER_ORGANIZATION)
        ]
        await asyncio.sleep(0.2)
        await downloads.close()
        for reading in running:
            reading.cancel()  # as a server does that ends
        return await asyncio.wait_for(asyncio.gather(*running, return_exceptions=True), 5)

    for outcome in with_downloads(filled, end_while_they_wait):
        assert isinstance(outcome, psycopg.Error | asyncio.CancelledError)
