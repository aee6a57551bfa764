"""Configuration from the environment."""

from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from app.config import ConfigurationError, check_other_variables, load_config
from app.configuration_table import table
from app.wiring import ports_of
from rules.rate_budget import GitHubLimits

NEEDED = {
    "DATABASE_URL": "postgresql://u:secret-password@host/db",
    "REDIS_URL": "redis://host",
    "SECRET_KEY": "canary-canary-canary",
}


def test_required_variables_are_sufficient() -> None:
    config = load_config(NEEDED)
    assert (config.max_targets, config.session_jwt_ttl, config.issuer) == (
        10_000,
        timedelta(minutes=15),
        config.web_url,
    )
    assert len(config.cursor_secret) >= 32


def test_every_configuration_error_is_reported_at_once() -> None:
    wrong = {
        "DATABASE_URL": "mysql://host/db",
        "MAX_TARGETS": "many",
        "VALIDATE_RESPONSES": "perhaps",
        "LOG_LEVEL": "LOUD",
        "CURSOR_SECRET": "short",
        "SECRET_KEY": "short",
        "SESSION_JWT_TTL": "0",
        "GITHUB_APP_PRIVATE_KEY_FILE": "/does/not/exist",
        "RATE_LIMIT_WRITES": "\u0661\u0660",
    }
    with pytest.raises(ConfigurationError) as refused:
        load_config(wrong)
    lines = str(refused.value).splitlines()
    assert len(lines) == len(wrong) + 1
    assert all(any(name in line for line in lines) for name in (*wrong, "REDIS_URL"))


@pytest.mark.parametrize(
    "name",
    ["GITHUB_CLIENT_ID", "GITHUB_CLIENT_SECRET", "GITHUB_APP_CLIENT_ID", "GITHUB_APP_CLIENT_SECRET"],
)
def test_oauth_client_requires_both_id_and_secret(name: str) -> None:
    client = name.rpartition("CLIENT_")[0]
    with pytest.raises(ConfigurationError, match=rf"^{client}CLIENT_\w+ is required if {name} is set$"):
        load_config({**NEEDED, name: "one of the two"})


@pytest.mark.parametrize(
    "text",
    [
        "https://freeze.example.com",
        "http://localhost:8080/",
        "http://freeze.localhost",
        "http://127.0.0.2:1",
        "http://[::1]:8",
    ],
)
def test_web_url_accepts_origins_that_browsers_trust(text: str) -> None:
    assert load_config({**NEEDED, "WEB_URL": text}).web_url == text.rstrip("/")


@pytest.mark.parametrize(
    "text",
    ["http://freeze.example.com", "http://192.0.2.2:8080", "http://127.0.0.1.example.com", "https://", "ftp://x"],
)
def test_web_url_rejects_insecure_and_unusable_origins(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^WEB_URL must be an https URL, or an http URL of this machine$"):
        load_config({**NEEDED, "WEB_URL": text})


MAIL = {
    "SMTP_URL": "smtp+starttls://ada:canary@mail.test",
    "MAIL_FROM": "Freezes <freezes@example.com>",
}


def test_invalid_sender_of_mail_is_not_reported_as_missing_besides() -> None:
    with pytest.raises(ConfigurationError, match=r"^MAIL_FROM must be an e-mail address, with or without a name$"):
        load_config({**NEEDED, **MAIL, "MAIL_FROM": "freezes"})


def test_mail_requires_a_server_and_a_sender() -> None:
    config = load_config({**NEEDED, **MAIL})
    assert (config.smtp_url, config.mail_from) == (MAIL["SMTP_URL"], MAIL["MAIL_FROM"])
    assert "canary" not in repr(config)
    with pytest.raises(ConfigurationError, match=r"^MAIL_FROM is required if SMTP_URL is set$"):
        load_config({**NEEDED, "SMTP_URL": MAIL["SMTP_URL"]})


def test_secret_key_is_required() -> None:
    with pytest.raises(ConfigurationError, match=r"^SECRET_KEY is required: Encrypts secrets in the database"):
        load_config({name: value for name, value in NEEDED.items() if name != "SECRET_KEY"})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("SMTP_URL", "http://mail.test"),
        ("SMTP_URL", "smtp://"),
        ("SMTP_URL", "mail.test:25"),
        ("SMTP_URL", "smtp://ada:in-the-clear@mail.test"),
        ("MAIL_FROM", "freezes"),
        ("MAIL_FROM", "Freezes <freezes@example.com>\nBcc: eve@example.com"),
        ("SECRET_KEY", "short"),
    ],
)
def test_unusable_or_insecure_mail_configuration_is_rejected(name: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name} ") as refused:
        load_config({**NEEDED, **MAIL, name: text})
    assert "in-the-clear" not in str(refused.value)


def test_secrets_are_hidden_in_the_representation_of_the_configuration() -> None:
    config = load_config({**NEEDED, "GITHUB_WEBHOOK_SECRET": "canary-one", "CURSOR_SECRET": "canary-two-canary"})
    assert "canary" not in repr(config)
    assert "secret-password" not in repr(config)


def private_key(size: int = 2048, password: bytes | None = None) -> str:
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    key = rsa.generate_private_key(65537, size)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()


def test_private_key_comes_from_a_variable_or_a_file(tmp_path: Path) -> None:
    file, pem = tmp_path / "key.pem", private_key().strip()
    file.write_text(pem)
    assert load_config({**NEEDED, "GITHUB_APP_PRIVATE_KEY_FILE": str(file)}).private_key == pem
    assert load_config({**NEEDED, "GITHUB_APP_PRIVATE_KEY": pem}).private_key == pem


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"PEM", "must be an RSA private key in PEM format"),
        (private_key()[:-100].encode(), "must be an RSA private key in PEM format"),
        (private_key(password=b"secret").encode(), "must be an RSA private key in PEM format"),
        (b"\xff\xfe", "is not a text file"),
        (None, "cannot be read: Is a directory"),
    ],
    ids=["no key", "cut off", "encrypted", "binary", "a directory"],
)
def test_unusable_private_key_is_one_line_that_names_the_variable(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    file = tmp_path / "key.pem"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=rf"^GITHUB_APP_PRIVATE_KEY_FILE {problem}[^\n]*$"):
        load_config({**NEEDED, "GITHUB_APP_PRIVATE_KEY_FILE": str(file)})
    if content == b"PEM":
        with pytest.raises(ConfigurationError, match=rf"^GITHUB_APP_PRIVATE_KEY {problem}[^\n]*$"):
            load_config({**NEEDED, "GITHUB_APP_PRIVATE_KEY": "PEM"})


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("BASE_URL", "https://"),
        ("DOCS_URL", "https:///docs"),
        ("DOCS_URL", "https://do cs"),
        ("GITHUB_API_URL", "http://:8080"),
        ("GITHUB_WEB_URL", "https://github.com:port"),
        ("STATUS_URL", "https://host:99999"),
        ("WEB_URL", "https://"),
        ("REDIS_URL", "redis://"),
        ("DATABASE_URL", "postgresql://host:port/db"),
        ("SMTP_URL", "smtps://"),
    ],
)
def test_url_without_a_valid_host_is_refused(name: str, url: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"(?m)^{name} must "):
        load_config({**NEEDED, "MAIL_FROM": "a@example.com", name: url})


@pytest.mark.parametrize("address", ["0.0.0.0:80", ":80", "host-1.example:80", "[::1]:8080", "unix:/run/api.sock", ""])
def test_api_listens_on_a_host_and_port_or_a_socket(address: str) -> None:
    check_other_variables({"BIND": address})


@pytest.mark.parametrize(
    "address", ["80", "host", "host:", "host:http", "a b:80", "::1:80", "0.0.0.0:0", "http://x:80"]
)
def test_address_on_which_the_api_cannot_listen_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^BIND must be "):
        check_other_variables({"BIND": address})


def test_misspelt_variables_are_named_with_what_may_be_meant(caplog: pytest.LogCaptureFixture) -> None:
    others = {"GITHUB_TOKEN": "x", "GITHUB_REPOSITORY": "x", "GITHUB_RUN_ID": "1", "PATH": "/bin", "REDIS_PORT": "1"}
    load_config({**NEEDED, **others, "DATABASE_POOLSIZE": "5", "github_app_slug": "x", "SWEEP_EVRY": "1", "PORT": "1"})
    assert caplog.messages == [
        "DATABASE_POOLSIZE is not a variable of this service: did you mean DATABASE_POOL_SIZE?",
        "SWEEP_EVRY is not a variable of this service: did you mean SWEEP_EVERY?",
        "github_app_slug is not a variable of this service: did you mean GITHUB_APP_SLUG?",
    ]


def test_configuration_table_lists_the_variables() -> None:
    assert "| `DATABASE_URL` |" in table()
    assert "| `MAX_TARGETS` | Branches that one freeze request may cover | 10000 |" in table()


STRIPE = {"STRIPE_SECRET_KEY": "sk_test_canary_of_stripe", "STRIPE_WEBHOOK_SECRET": "whsec_canary_the_first"}


def test_stripe_takes_one_secret_of_webhooks_or_two_while_they_are_rotated() -> None:
    second = "whsec_canary_the_second"
    config = load_config({**NEEDED, **STRIPE})
    assert config.stripe_webhook_secret == (STRIPE["STRIPE_WEBHOOK_SECRET"],)
    assert "canary" not in repr(config)
    both = f"{STRIPE['STRIPE_WEBHOOK_SECRET']}, {second}"
    assert load_config({**NEEDED, **STRIPE, "STRIPE_WEBHOOK_SECRET": both}).stripe_webhook_secret[1] == second
    for wrong in (f"{both},{second}", "short", f"{second},"):
        with pytest.raises(ConfigurationError, match=r"^STRIPE_WEBHOOK_SECRET must be one secret, or two"):
            load_config({**NEEDED, **STRIPE, "STRIPE_WEBHOOK_SECRET": wrong})


@pytest.mark.parametrize("name", sorted(STRIPE))
def test_stripe_requires_a_key_and_a_secret_of_webhooks(name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^{name} is required if STRIPE_"):
        load_config({**NEEDED, **{other: STRIPE[other] for other in STRIPE if other != name}})


@pytest.mark.parametrize("name", ["SECRET_KEY", "CURSOR_SECRET", "GITHUB_WEBHOOK_SECRET"])
def test_previous_secret_must_differ_from_the_present_one(name: str) -> None:
    same = {name: "a secret of the tests", f"{name}_PREVIOUS": "a secret of the tests"}
    with pytest.raises(ConfigurationError, match=f"{name}_PREVIOUS must not be {name}"):
        load_config({**NEEDED, **same})


@pytest.mark.parametrize(("text", "delay"), [(None, 20), ("0", 0), ("60", 60)])
def test_delay_of_rulesets_reaches_the_units_of_work(text: str | None, delay: int) -> None:
    given = {} if text is None else {"GITHUB_RULESET_DELAY": text}
    limits = ports_of(load_config({**NEEDED, **given}))[GitHubLimits]
    assert limits.ruleset_delay == timedelta(seconds=delay)


@pytest.mark.parametrize("text", ["61", "-1", "2.5"])
def test_delay_of_rulesets_is_at_most_a_minute(text: str) -> None:
    with pytest.raises(ConfigurationError, match="GITHUB_RULESET_DELAY"):
        load_config({**NEEDED, "GITHUB_RULESET_DELAY": text})
