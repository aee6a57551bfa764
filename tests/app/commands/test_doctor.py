"""The command `doctor`: a line for each thing that the service needs, and what to do about those that are not well."""

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from sqlalchemy import make_url, text
from sqlalchemy.orm import Session

from app.commands.doctor import check_github, main
from app.config import load_config
from app.database import ROLES
from app.database_connections import RELEASE_REVISION
from models.enforcement import FrozenBranchRuleset
from tests import factories
from tests.harness.app_key import AppKey, make_app_key
from tests.harness.collectors import collector
from tests.harness.mail import mailbox
from tests.harness.product import address_of
from tools import fake_slack, fake_stripe
from tools.fake_github import FakeGitHub, Handle
from tools.fake_github.model import installations
from tools.fake_github.model.installations import client_id_of
from tools.fake_github.oauth import APP_CLIENT_SECRET, CLIENT_ID, CLIENT_SECRET

BASE_URL = "https://freeze.example.com"
pytestmark = pytest.mark.usefixtures("session")


@pytest.fixture(scope="module")
def slack() -> Iterator[fake_slack.Handle]:
    handle = fake_slack.serve(fake_slack.FakeSlack())
    yield handle
    handle.stop()


@pytest.fixture(scope="module")
def stripe() -> Iterator[fake_stripe.Handle]:
    handle = fake_stripe.serve(fake_stripe.FakeStripe())
    yield handle
    handle.stop()


@pytest.fixture
def github(fake_github_server: Handle, app_key: AppKey) -> FakeGitHub:
    github = FakeGitHub(app_public_key=app_key.public, webhook_url=f"{BASE_URL}/webhooks/github", webhook_secret="s")
    fake_github_server.replace(github)
    return github


@pytest.fixture(scope="module")
def login(shared_database: psycopg.Connection) -> Iterator[str]:
    """Return the address of the database for a login that owns nothing, as the service has it."""
    shared_database.execute("CREATE ROLE change_freeze_test_doctor LOGIN NOINHERIT PASSWORD 'not a secret'")
    for role in ROLES:
        shared_database.execute(f"GRANT {role} TO change_freeze_test_doctor".encode())
    url = make_url(address_of(shared_database)).set(username="change_freeze_test_doctor", password="not a secret")
    yield url.render_as_string(hide_password=False)
    shared_database.execute("DROP ROLE change_freeze_test_doctor")


@pytest.fixture(autouse=True)
def environment(
    session: Session,
    login: str,
    github: FakeGitHub,
    app_key: AppKey,
    slack: fake_slack.Handle,
    stripe: fake_stripe.Handle,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[pytest.MonkeyPatch]:
    """Set the environment of a service that has everything."""
    with mailbox() as mails:
        variables = {
            "BASE_URL": BASE_URL,
            "DATABASE_URL": login,
            "GITHUB_API_URL": github.base_url,
            "GITHUB_WEB_URL": github.base_url,
            "GITHUB_APP_ID": str(github.app.id),
            "GITHUB_APP_SLUG": github.app.slug,
            "GITHUB_APP_PRIVATE_KEY": app_key.private,
            "GITHUB_WEBHOOK_SECRET": "s",
            "GITHUB_APP_CLIENT_ID": client_id_of(github.app.id),
            "GITHUB_APP_CLIENT_SECRET": APP_CLIENT_SECRET,
            "GITHUB_CLIENT_ID": CLIENT_ID,
            "GITHUB_CLIENT_SECRET": CLIENT_SECRET,
            "SMTP_URL": mails.smtp_url,
            "MAIL_FROM": "Freezes <freezes@example.com>",
            "STRIPE_SECRET_KEY": stripe.stripe.keys.secret_key,
            "STRIPE_WEBHOOK_SECRET": "whsec_secret_of_tests",
            "STRIPE_API_URL": stripe.base_url,
            "SLACK_CLIENT_ID": slack.slack.settings.client_id,
            "SLACK_CLIENT_SECRET": slack.slack.settings.client_secret,
            "SLACK_SIGNING_SECRET": "0123456789abcdef",
            "SLACK_URL": slack.base_url,
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield monkeypatch


def examine(capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """Run the command; return its exit status and the lines that are not `ok`."""
    status = main([])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 3 or status
    return status, [line for line in lines if not line.startswith("ok ")]


def test_service_without_prices_has_them_to_fix_alone(capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = examine(capsys)
    assert (status, lines[0]) == (1, "fix  stripe: Stripe has no prices: run `python -m app billing setup`")
    assert [line.partition(":")[0] for line in lines[1:]] == ["off  traces", "off  errors"]


def test_service_that_sells_nothing_is_well(
    environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (
        "STRIPE_SECRET_KEY",
        "STRIPE_WEBHOOK_SECRET",
        "SLACK_CLIENT_ID",
        "SLACK_CLIENT_SECRET",
        "SLACK_SIGNING_SECRET",
    ):
        environment.delenv(name)
    status, lines = examine(capsys)
    assert status == 0
    assert [line.partition(":")[0] for line in lines] == ["off  stripe", "off  slack", "off  traces", "off  errors"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"BASE_URL": ("not a URL", "configuration: BASE_URL ")},
        {
            "BASE_URL": ("https://other.example", "github: the App's webhooks go to https://freeze.example.com/"),
            "GITHUB_APP_SLUG": ("other", "github: GITHUB_APP_SLUG must be change-freeze"),
            "GITHUB_APP_CLIENT_SECRET": ("wrong", "github: GitHub does not accept the App's own client"),
            "GITHUB_CLIENT_SECRET": ("wrong", "github: GitHub does not accept the OAuth App"),
            "REDIS_URL": ("redis://127.0.0.1:1", "redis: Redis cannot be used"),
            "SMTP_URL": ("smtp://127.0.0.1:1", "mail: the mail server cannot be used"),
            "STRIPE_SECRET_KEY": ("sk_test_an_unknown_key", "stripe: Stripe cannot be used"),
            "SLACK_CLIENT_SECRET": ("a wrong client secret", "slack: Slack does not accept the app"),
            "SENTRY_DSN": ("http://key@127.0.0.1:1/42", "errors: Sentry does not accept reports"),
        },
        {
            "GITHUB_APP_ID": ("2", "github: GitHub does not accept the App"),
            "DATABASE_URL": ("postgresql://nobody@127.0.0.1:1/nothing", "database: connection failed"),
            "OTEL_EXPORTER_OTLP_ENDPOINT": ("http://127.0.0.1:1", "traces: the collector does not accept traces"),
        },
    ],
    ids=["unreadable", "several", "two more"],
)
def test_each_wrong_variable_is_named(
    wrong: dict[str, tuple[str, str]], environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, (value, _) in wrong.items():
        environment.setenv(name, value)
    status, lines = examine(capsys)
    assert status == 1
    for _, line in wrong.values():
        assert any(each.startswith(f"fix  {line}") for each in lines), lines


def test_private_key_of_the_app_is_replaced_without_a_gap(
    github: FakeGitHub, app_key: AppKey, environment: pytest.MonkeyPatch
) -> None:
    def accepted(key: AppKey) -> bool:
        environment.setenv("GITHUB_APP_PRIVATE_KEY", key.private)
        return all(finding.state == "ok" for finding in check_github(load_config()))

    new = make_app_key()
    assert (accepted(app_key), accepted(new)) == (True, False), "before"
    github.app.further_public_keys = [new.public]
    assert (accepted(app_key), accepted(new)) == (True, True), "while GitHub has both"
    github.app.public_key, github.app.further_public_keys = new.public, []
    assert (accepted(app_key), accepted(new)) == (False, True), "after the previous one was deleted"


def test_permissions_and_events_that_the_app_lacks_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(installations.PERMISSIONS, "checks", "read")
    monkeypatch.setattr(
        "tools.fake_github.payloads.accounts.EVENTS", sorted({*installations.EVENTS} - {"push", "label", "team"})
    )
    _, lines = examine(capsys)
    assert "fix  github: the App lacks permissions: add checks:write" in lines
    assert "fix  github: the App misses events: subscribe to push" in lines
    late = "off  github: rules for exceptions notice changes late, when a branch is read: subscribe to label, team"
    assert late in lines


def test_every_part_of_the_database_has_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("ok   database: ")]
    texts = ("the login change_freeze_test_doctor owns nothing", f"the schema is at revision {RELEASE_REVISION}")
    for part in (*texts, "PostgreSQL is reached directly", "workers have a connection", "the clocks"):
        assert any(part in line for line in lines), part


def test_login_with_more_rights_than_it_needs_is_named(
    environment: pytest.MonkeyPatch, shared_database: psycopg.Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    environment.setenv("DATABASE_URL", address_of(shared_database))
    status, lines = examine(capsys)
    assert status == 1
    [line] = [line for line in lines if line.startswith("fix  database: the login ")]
    assert "is a superuser" in line
    assert "deploy/postgres/roles.sql" in line


@pytest.mark.parametrize(
    ("right", "back", "words"),
    [
        ("ALTER ROLE {login} BYPASSRLS", "ALTER ROLE {login} NOBYPASSRLS", "bypasses row-level security"),
        ("ALTER ROLE {login} CREATEROLE", "ALTER ROLE {login} NOCREATEROLE", "may create roles or databases"),
        ("GRANT {owner} TO {login}", "REVOKE {owner} FROM {login}", "owns tables"),
    ],
)
def test_each_right_that_a_login_does_not_need_is_named(
    shared_database: psycopg.Connection, right: str, back: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"login": "change_freeze_test_doctor", "owner": shared_database.info.user}
    shared_database.execute(right.format(**names).encode())
    try:
        status, lines = examine(capsys)
    finally:
        shared_database.execute(back.format(**names).encode())
    assert status == 1
    assert any(line.startswith(f"fix  database: the login {names['login']} {words}: use one") for line in lines), lines


def test_collector_and_sentry_that_answer_are_well(
    environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with collector() as traces, collector() as sentry:
        environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", traces.url)
        environment.setenv("SENTRY_DSN", sentry.url.replace("//", "//key@") + "/42")
        main([])
    shown = capsys.readouterr().out
    assert "ok   traces: the collector accepts traces\n" in shown
    assert "ok   errors: Sentry accepts reports\n" in shown
    assert traces.spans() == []
    assert [request.path for request in sentry.requests] == ["/api/42/envelope/"]


def test_processes_that_do_not_run_are_named(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    session.execute(text("DELETE FROM lease_holders WHERE kind = 'worker'"))
    session.commit()
    _, lines = examine(capsys)
    assert "fix  database: no worker runs: start `python -m app worker`" in lines


def test_workers_that_do_not_sweep_are_named(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    session.execute(text("UPDATE periodic_tasks SET done_at = now() - interval '1 minute'"))
    session.commit()
    _, lines = examine(capsys)
    assert "fix  database: no worker sweeps: see the logs of the workers" in lines


def test_restore_that_is_not_confirmed_is_to_fix(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    session.execute(text("UPDATE database_identity SET timeline = timeline + 1"))
    session.commit()
    try:
        _, lines = examine(capsys)
    finally:
        session.execute(text("UPDATE database_identity SET timeline = timeline - 1"))
        session.commit()
    restored = "the database was restored, and nothing is released at GitHub: run `python -m app restore show`"
    assert f"fix  database: {restored}" in lines


def test_secrets_are_not_printed(environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    environment.setenv("STRIPE_SECRET_KEY", "sk_test_very_secret")
    environment.setenv("SMTP_URL", "smtp://me:very_secret@127.0.0.1:1")
    environment.setenv("DATABASE_URL", "postgresql://me:very_secret@127.0.0.1:1/nothing")
    main([])
    assert "very_secret" not in capsys.readouterr().out


def test_stops_that_do_not_end_and_that_people_ended_are_named(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    acme, now = factories.organization(session, "Acme"), factories.now()
    branches = [factories.watched(session, acme, f"acme/{name}") for name in ("ended", "refused", "well")]
    for branch in branches:
        factories.branch_enforcement(session, branch)
        factories.head_check(session, branch, "a" * 40, "success")
        row = FrozenBranchRuleset(repository_id=branch.repository_id, organization_id=acme.id, branch_names=[])
        session.add(row)
        if branch is branches[1]:
            row.stop_refused_at = now
        else:
            row.stop_context, row.stop_written_at = "change-freeze/stop:1", now - timedelta(hours=1)
    factories.freeze(session, acme, branches[:1], ended_at=now - timedelta(minutes=2))
    factories.freeze(session, acme, branches[1:])
    session.commit()
    status, lines = examine(capsys)
    assert status == 1
    not_ended, refused = [line for line in lines if "stops:" in line]
    assert not_ended.startswith("fix  stops: GitHub refuses every merge into branches of acme/ended by a stop")
    assert "disable or delete the ruleset" in not_ended
    assert refused.startswith("fix  stops: people ended the stop of acme/refused at GitHub")
