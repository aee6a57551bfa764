"""Starting the process."""

import importlib
import json

import pytest

import app.main
from app.config import load_config


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
