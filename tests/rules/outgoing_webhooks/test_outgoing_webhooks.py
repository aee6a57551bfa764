"""Rules of outgoing webhooks: events, signatures, addresses and retries."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from rules.audit.actions import ACTIONS, INTERNAL_ACTIONS, PUBLIC_ACTIONS
from rules.notifications.kinds import UPCOMING
from rules.outgoing_webhooks.addresses import origin_of, problem_with
from rules.outgoing_webhooks.events import FAMILIES, WITHHELD, is_chosen, list_events, unknown_events
from rules.outgoing_webhooks.retries import DELAYS, MAX_QUIET, MAX_RETRY_AFTER, failing_since, retry_at
from rules.outgoing_webhooks.signatures import new_secret, signed_headers

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
BODY = '{"type":"freeze.started","data":{"reason":"Grüße"}}'.encode()


class TestEvents:
    def test_every_audit_action_is_sent_or_withheld_with_a_reason(self) -> None:
        decided = {*FAMILIES, *WITHHELD}
        assert {action.partition(".")[0] for action in ACTIONS} <= decided
        assert all(reason.endswith(".") for reason in WITHHELD.values())
        assert {action.partition(".")[0] for action in PUBLIC_ACTIONS} == FAMILIES.keys() - {"window"}
        assert not PUBLIC_ACTIONS.keys() & WITHHELD.keys()

    @pytest.mark.parametrize("action", INTERNAL_ACTIONS)
    def test_action_that_is_not_public_is_never_sent(self, action: str) -> None:
        assert not is_chosen(action, ["*", action, f"{action.partition('.')[0]}.*"])

    @pytest.mark.parametrize(
        ("event", "chosen", "expected"),
        [
            ("freeze.started", ["freeze.started"], True),
            ("freeze.started", ["freeze.*"], True),
            ("freeze.started", ["*"], True),
            ("freeze.started", ["freeze.lifted", "exception.*"], False),
            ("freeze.started", [], False),
            (UPCOMING, ["*"], True),
            (UPCOMING, ["window.*"], True),
            (UPCOMING, ["freeze.*"], False),
            ("session.started", ["*"], False),
            ("session.started", ["session.*", "session.started"], False),
            ("webhook.disabled", ["*"], False),
            ("organization.deleted", ["*", "organization.*"], False),
        ],
    )
    def test_event_is_sent_to_those_who_chose_it(self, event: str, chosen: list[str], *, expected: bool) -> None:
        assert is_chosen(event, chosen) is expected

    def test_unknown_and_withheld_events_cannot_be_chosen(self) -> None:
        chosen = ["*", "freeze.*", "user.*", UPCOMING, "freeze.start", "session.started", "*.*", "freeze.STARTED"]
        assert unknown_events(chosen) == [2, 4, 5, 6, 7]
        assert unknown_events([event for event, _ in list_events()]) == []


class TestSignatures:
    def test_signature_is_verified_by_standard_webhooks(self) -> None:
        secret = new_secret()
        headers = signed_headers([secret], "msg_1", int(datetime.now(UTC).timestamp()), BODY)
        assert Webhook(secret).verify(BODY, headers)["type"] == "freeze.started"
        for changed in (
            headers | {"webhook-id": "msg_2"},
            headers | {"webhook-timestamp": str(int(headers["webhook-timestamp"]) - 1)},
        ):
            with pytest.raises(WebhookVerificationError):
                Webhook(secret).verify(BODY, changed)
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(BODY + b" ", headers)
        with pytest.raises(WebhookVerificationError):
            Webhook(new_secret()).verify(BODY, headers)

    def test_old_message_is_refused_by_standard_webhooks(self) -> None:
        secret = new_secret()
        headers = signed_headers([secret], "msg_1", int(datetime.now(UTC).timestamp()) - 301, BODY)
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(BODY, headers)

    def test_both_secrets_of_a_rotation_verify(self) -> None:
        secrets = [new_secret(), new_secret()]
        headers = signed_headers(secrets, "msg_1", int(datetime.now(UTC).timestamp()), BODY)
        for secret in secrets:
            Webhook(secret).verify(BODY, headers)

    def test_signature_is_that_of_the_specification(self) -> None:
        secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        body = b'{"test": 2432232314}'
        headers = signed_headers([secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
        assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


class TestAddresses:
    @pytest.mark.parametrize(
        "url",
        [
            "https://hooks.example.com",
            "https://hooks.example.com/in?token=x&y=%20",
            "https://hooks.example.com:8443/",
            "https://8.8.8.8/in",
            "https://[2606:4700::1111]/in",
            "https://xn--bcher-kva.example/in",
        ],
    )
    def test_public_https_address_is_allowed(self, url: str) -> None:
        assert problem_with(url) is None

    @pytest.mark.parametrize(
        "url",
        [
            "http://hooks.example.com/in",
            "HTTPS://hooks.example.com/in",
            "ftp://hooks.example.com/in",
            "https:///in",
            "https://ada:secret@hooks.example.com/in",
            "https://hooks.example.com/in#part",
            "https://hooks.example.com/a b",
            "https://hooks.example.com\\@evil.example/",
            "https://hooks.example.com:0/",
            "https://hooks.example.com:99999/",
            "https://bücher.example/in",
            "https://hooks.example.com/\r\nHost: evil.example",
            "https://127.0.0.1/in",
            "https://127.1/in",
            "https://2130706433/in",
            "https://0x7f000001/in",
            "https://0x7f.1/in",
            "https://0177.0.0.1/in",
            "https://10.0.0.1/in",
            "https://169.254.169.254/latest/meta-data",
            "https://[::1]/in",
            "https://[::ffff:10.0.0.1]/in",
            "https://[64:ff9b::7f00:1]/in",
            "https://[fe80::1%25eth0]/in",
            "https://localhost/in",
            "https://api.localhost/in",
        ],
    )
    def test_other_address_is_refused(self, url: str) -> None:
        assert problem_with(url) is not None

    def test_loopback_is_allowed_for_a_service_on_one_machine_only(self) -> None:
        for host in ("localhost:8443", "127.0.0.1:8443", "[::1]:8443"):
            assert problem_with(f"https://{host}/in", loopback=True) is None
        assert problem_with("https://10.0.0.1/in", loopback=True) is not None
        assert problem_with("http://localhost/in", loopback=True) is not None

    def test_origin_has_neither_path_nor_query(self) -> None:
        assert origin_of("https://hooks.example.com:8443/T0/B1?x=y") == "https://hooks.example.com:8443"


class TestRetries:
    def test_message_is_retried_at_the_documented_times_with_jitter(self) -> None:
        for failures, delay in enumerate(DELAYS, 1):
            waits = [(retry_at(NOW, failures) or NOW) - NOW for _ in range(20)]
            assert all(delay * 0.9 <= wait <= delay * 1.1 for wait in waits)
            assert len(set(waits)) > 1

    def test_message_is_given_up_after_the_last_attempt(self) -> None:
        assert retry_at(NOW, len(DELAYS) + 1) is None
        assert retry_at(NOW, len(DELAYS) + 1, "60") is None

    @pytest.mark.parametrize(
        ("header", "seconds"),
        [
            ("120", 120),
            (" 120 ", 120),
            ("Sat, 21 Nov 2026 09:32:00 GMT", 120),
            ("999999999999999999999", MAX_RETRY_AFTER.total_seconds()),
            ("Fri, 31 Dec 9999 23:59:59 GMT", MAX_RETRY_AFTER.total_seconds()),
        ],
    )
    def test_later_retry_after_is_obeyed_up_to_a_day(self, header: str, seconds: float) -> None:
        assert retry_at(NOW, 1, header) == NOW + timedelta(seconds=seconds)

    @pytest.mark.parametrize(
        "header",
        [
            *("", "-5", "1.5", "soon", "²", "1", "Sat, 21 Nov 2020 09:32:00 GMT", "Sat, 99 Nov 2026 09:32:00 GMT"),
            "Sat, 21 Nov 2026 09:32:00 +" + "9" * 30,
        ],
    )
    def test_other_retry_after_changes_nothing(self, header: str) -> None:
        wait = (retry_at(NOW, 1, header) or NOW) - NOW
        assert DELAYS[0] * 0.9 <= wait <= DELAYS[0] * 1.1

    @given(st.text() | st.from_regex(r"[A-Z][a-z]{2}, \d+ [A-Z][a-z]{2} \d+ \d+:\d+(:\d+)? [+-]?\w+"))
    def test_no_retry_after_prevents_or_hastens_a_retry(self, header: str) -> None:
        wait = (retry_at(NOW, 1, header) or NOW) - NOW
        assert DELAYS[0] * 0.9 <= wait <= MAX_RETRY_AFTER

    def test_endpoint_fails_since_the_first_of_failures_without_a_long_quiet(self) -> None:
        day = timedelta(days=1)
        assert failing_since(NOW, None, None) == NOW
        assert failing_since(NOW, NOW - 4 * day, NOW - day) == NOW - 4 * day
        assert failing_since(NOW, NOW - 4 * day, NOW - MAX_QUIET - day) == NOW
