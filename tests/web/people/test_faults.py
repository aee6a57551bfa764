"""What people see when the service cannot: pages with the right status, and nothing of the cause."""

from pathlib import Path

import httpx
import psycopg
from redis import Redis

from app.main import create_app
from tests.conftest import as_libpq
from tests.support.product import product_config, product_parts
from tests.support.serving import serving

NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"
PARTS = product_parts()


def opened(database_url: str, redis_url: str, path: str, maintenance: Path | None = None) -> httpx.Response:
    config = product_config(database_url, redis_url, maintenance_file=maintenance)
    with serving(create_app(config, PARTS)) as url:
        return httpx.get(url + path, timeout=30)


def test_in_a_maintenance_window_they_are_told_so(tmp_path: Path, redis: Redis, redis_url: str) -> None:
    file = tmp_path / "maintenance"
    file.touch()
    page = opened(NOWHERE, redis_url, "/sign-up", file)
    assert (page.status_code, page.headers["Retry-After"]) == (503, "60")
    assert "The service is under maintenance" in page.text
    assert "<h1>" in page.text


def test_without_a_database_they_are_told_to_come_back(redis: Redis, redis_url: str) -> None:
    page = opened(NOWHERE, redis_url, "/sign-in")
    assert (page.status_code, page.headers["Retry-After"]) == (503, "1")
    assert "cannot reach its database" in page.text
    assert page.headers["content-type"].startswith("text/html")


def test_of_a_fault_of_ours_they_see_that_there_is_one(own_database: str, redis: Redis, redis_url: str) -> None:
    with psycopg.connect(as_libpq(own_database), autocommit=True) as connection:
        connection.execute("ALTER TABLE one_time_tokens RENAME TO lost")
    page = opened(own_database, redis_url, "/verify?token=a-secret-of-somebody")
    assert page.status_code == 500
    assert "Something failed on our side" in page.text
    assert page.headers["X-Request-Id"] in page.text
    assert "one_time_tokens" not in page.text
    assert "a-secret-of-somebody" not in page.text
