"""Starting the process."""

import importlib
import json

import psycopg
import pytest

import app.main
from app.config import load_config
from tests.harness.app_key import AppKey
from tests.harness.product import address_of, product_config, product_parts
from tests.harness.servers import serving
from tests.harness.wakeups import RecordedWakeups


def test_invalid_environment_ends_the_process_with_every_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("REDIS_URL", "http://wrong")
    with pytest.raises(SystemExit) as ended:
        _ = app.main.app
    assert ended.value.code == 3
    [shown] = map(json.loads, capsys.readouterr().err.splitlines())
    assert shown["event"] == "The API cannot start."
    assert any(each.startswith("DATABASE_URL is required") for each in shown["problems"])
    assert "REDIS_URL must be a URL of redis or rediss or unix" in shown["problems"]


def test_application_starts_without_its_database() -> None:
    environment = {"DATABASE_URL": "postgresql://127.0.0.1:1/x", "REDIS_URL": "redis://127.0.0.1:1"}
    config = load_config({**environment, "SECRET_KEY": "a secret of tests"})
    assert app.main.create_app(config) is not None


def test_import_of_the_main_module_needs_no_environment() -> None:
    importlib.reload(app.main)
    with pytest.raises(AttributeError):
        _ = app.main.nothing


@pytest.mark.parametrize(("app_id", "woken"), [(4242, ["webhook_log"]), (None, [])])
def test_start_has_the_log_of_webhooks_read_now(
    shared_database: psycopg.Connection, redis_url: str, app_key: AppKey, app_id: int | None, woken: list[str]
) -> None:
    shared_database.execute("INSERT INTO webhook_log (since, read_at) VALUES (now(), now()) ON CONFLICT DO NOTHING")
    shared_database.execute("UPDATE webhook_log SET due_at = clock_timestamp() + interval '1 minute'")
    wakeups = RecordedWakeups()
    config = product_config(
        address_of(shared_database), redis_url, github_app_id=app_id, github_app_private_key=app_key.private
    )
    with serving(app.main.create_app(config, product_parts(wakeups=wakeups))):
        pass
    [(due,)] = shared_database.execute("SELECT due_at <= clock_timestamp() FROM webhook_log").fetchall()
    assert (due, wakeups.sent) == (app_id is not None, woken)


def test_start_without_a_database_requests_no_reading(app_key: AppKey, caplog: pytest.LogCaptureFixture) -> None:
    addresses = ("postgresql://127.0.0.1:1/x", "redis://127.0.0.1:1")
    config = product_config(*addresses, github_app_id=1, github_app_private_key=app_key.private)
    with serving(app.main.create_app(config, product_parts())):
        pass
    assert "a reading of the log of webhooks was not requested" in caplog.text
