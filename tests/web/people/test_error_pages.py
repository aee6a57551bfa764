"""What people see when the service cannot: pages with the right status, and nothing of the cause."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest
from redis import Redis

from app.main import create_app
from services.core.tokens import new_session_token
from tests.conftest import as_libpq
from tests.harness.product import product_config, product_parts
from tests.harness.servers import serving

NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"
PARTS = product_parts()


def opened(database_url: str, redis_url: str, path: str, *, maintenance: Path | None = None) -> httpx.Response:
    config = product_config(database_url, redis_url, maintenance_file=maintenance)
    with serving(create_app(config, PARTS)) as url:
        return httpx.get(url + path, timeout=30)


def test_page_reports_a_maintenance_window(tmp_path: Path, redis: Redis, redis_url: str) -> None:
    file = tmp_path / "maintenance"
    file.touch()
    page = opened(NOWHERE, redis_url, "/sign-up", maintenance=file)
    assert (page.status_code, page.headers["Retry-After"]) == (503, "60")
    assert "The service is under maintenance" in page.text
    assert "<h1>" in page.text


@pytest.fixture(scope="module")
def site_without_database(redis_url: str) -> Iterator[str]:
    with serving(create_app(product_config(NOWHERE, redis_url), PARTS)) as url:
        yield url


def test_page_suggests_a_retry_when_the_database_is_unavailable(site_without_database: str, redis: Redis) -> None:
    cases: list[str] = [
        "/",
        "/sign-in",
        "/verify?token=x",
        "/reset?token=x",
        "/invitation?token=x",
        "/audit",
    ]
    for path in cases:
        headers = {"Cookie": f"session={new_session_token()}"}
        page = httpx.get(site_without_database + path, headers=headers, timeout=30)
        assert (page.status_code, page.headers["Retry-After"]) == (503, "1")
        assert "cannot reach its database" in page.text
        assert "checks that are written keep blocking" in page.text
        assert page.headers["content-type"].startswith("text/html")


def test_page_of_an_internal_error_shows_only_the_request_id(own_database: str, redis: Redis, redis_url: str) -> None:
    with psycopg.connect(as_libpq(own_database), autocommit=True) as connection:
        connection.execute("ALTER TABLE one_time_tokens RENAME TO lost")
    page = opened(own_database, redis_url, "/verify?token=a-secret-of-somebody")
    assert page.status_code == 500
    assert "Something failed on our side" in page.text
    assert page.headers["X-Request-Id"] in page.text
    assert "one_time_tokens" not in page.text
    assert "a-secret-of-somebody" not in page.text
