"""Logs: one line of JSON each, no secrets, nothing injected (I10)."""

import io
import json
import logging
import secrets
import sys
import time

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from app import logs
from app.config import load_config
from app.database import make_engine
from app.edge.access_log import AccessLog
from app.edge.request_context import RequestContext
from app.main import create_app
from integrations.traces import continued
from services.core.tokens import new_oauth_code, new_refresh_token, new_session_token
from services.identity.api_key_secrets import new_secret
from tests.harness.servers import client_of, serving

CANARIES = {
    "an API key": new_secret(),
    "what signs a person in": new_session_token(),
    "an authorization code": new_oauth_code(),
    "a refresh token": new_refresh_token(),
    "a session token": "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJl-canary",
    "an installation token": "ghs_16C7e42F292c6912E7710c838347Ae178B4a",
    "a fine-grained token": "github_pat_11ABCDEFG_canary",
    "a private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIcanary\n-----END RSA PRIVATE KEY-----",
}


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    logs.configure("INFO")
    return stream


@pytest.mark.parametrize("canary", CANARIES.values(), ids=CANARIES.keys())
def test_secret_is_redacted_anywhere_in_the_log(lines: io.StringIO, canary: str) -> None:
    logger = logging.getLogger("anything")
    logger.warning("met %s", canary, extra={"nested": {"deep": [canary]}})
    logger.error("failed", exc_info=RuntimeError(canary))
    written = lines.getvalue()
    assert "[redacted]" in written
    assert canary.replace("\n", "\\n") not in written
    assert canary.splitlines()[len(canary.splitlines()) // 2][-12:] not in written
    assert [json.loads(line)["level"] for line in written.splitlines()] == ["warning", "error"]


@pytest.mark.parametrize("part", ["eyJ", "://a:", "gha_", "svc_live_", "-----BEGIN ", "password=", "a"])
def test_long_hostile_text_is_redacted_in_little_time(part: str) -> None:
    began = time.thread_time()
    logs.redact(part * (60_000 // len(part)))
    assert time.thread_time() - began < 0.05


def test_line_break_in_a_value_starts_no_second_log_line(lines: io.StringIO) -> None:
    logging.getLogger("anything").warning('a\r\n{"level": "critical"}\x1b[31m')
    (line,) = lines.getvalue().splitlines()
    assert json.loads(line)["level"] == "warning"


def test_access_log_omits_the_query_and_escapes_the_path() -> None:
    stream = io.BytesIO()
    scope = {
        "method": "GET",
        "path": "/v1/a\n" + CANARIES["an API key"],
        "query_string": b"token=canary",
        "headers": [],
    }
    AccessLog(stream).write(RequestContext(scope, None, None), 404, "not_found", 0.0123)
    (line,) = stream.getvalue().splitlines()
    content = json.loads(line)
    assert (content["status"], content["code"], content["milliseconds"]) == (404, "not_found", 12.3)
    assert content["path"] == "/v1/a\n[redacted]"
    assert b"canary" not in line


def test_database_error_omits_the_parameters_of_its_statement(lines: io.StringIO, database: str) -> None:
    canary = secrets.token_urlsafe()
    engine = make_engine(database, 1)
    try:
        with engine.connect() as connection, pytest.raises(DBAPIError) as failed:
            connection.execute(text("SELECT 1 / 0 WHERE :verifier <> ''"), {"verifier": canary})
        logging.getLogger("anything").error("failed", exc_info=failed.value)
    finally:
        engine.dispose()
    assert "division by zero" in lines.getvalue()
    assert canary not in lines.getvalue()


def test_line_names_the_trace_and_the_request_of_the_running_code(lines: io.StringIO) -> None:
    with continued({"traceparent": f"00-{'1a' * 16}-{'2b' * 8}-01", "request_id": "a-request"}):
        logging.getLogger("anything").warning("inside")
    logging.getLogger("anything").warning("outside")
    inside, outside = map(json.loads, lines.getvalue().splitlines())
    assert (inside["trace_id"], inside["request_id"]) == ("1a" * 16, "a-request")
    assert outside.keys() & {"trace_id", "request_id"} == set()


def test_line_whose_arguments_do_not_fit_is_json_too(lines: io.StringIO) -> None:
    record = logging.makeLogRecord({"name": "anything", "msg": "%d of %d", "args": (1,)})
    logging.getLogger().handlers[0].handle(record)
    [line] = map(json.loads, lines.getvalue().splitlines())
    assert (line["level"], line["logger"]) == ("error", "anything")
    assert line["event"] == "a line could not be formatted: %d of %d"


def test_error_that_nothing_handles_is_one_critical_line(lines: io.StringIO) -> None:
    for error in (RuntimeError("a failure"), KeyboardInterrupt()):
        logs.log_unhandled(type(error), error, error.__traceback__)
    critical, warning = map(json.loads, lines.getvalue().splitlines())
    assert (critical["level"], critical["exception"]) == ("critical", "RuntimeError: a failure")
    assert (warning["level"], warning["event"]) == ("warning", "interrupted")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_report_is_text_on_a_terminal_and_a_line_of_its_level_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, expected in ((Terminal(), "Not now.\nA is wrong\n"), (io.StringIO(), "")):
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setenv("LOG_LEVEL", "error")
        logs.report(logging.INFO, "Not now.", ["A is wrong"])
        assert stream.getvalue() == expected
    monkeypatch.setenv("LOG_LEVEL", "no level")
    logs.report(logging.INFO, "Not now.", ["A is wrong"])
    line = json.loads(stream.getvalue())
    assert (line["level"], line["event"], line["problems"]) == ("info", "Not now.", ["A is wrong"])


@pytest.mark.parametrize(("level", "is_written"), [("INFO", True), ("WARNING", False)])
def test_access_log_obeys_the_level(level: str, is_written: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"DATABASE_URL": "postgresql://127.0.0.1:1/x", "REDIS_URL": "redis://127.0.0.1:1"}
    environment |= {"SECRET_KEY": "a secret of tests", "LOG_LEVEL": level}
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(written, write_through=True))
    with serving(create_app(load_config(environment))) as url, client_of(url) as client:
        assert client.get("/healthz").status_code == 200
    assert (b'"event":"request"' in written.getvalue()) == is_written
