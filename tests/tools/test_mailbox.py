"""The mailbox of the sandbox: it accepts mails and shows them to people and programs."""

import smtplib
from collections.abc import Iterator

import httpx
import pytest

from tests.harness.mail import mailbox
from tools.mailbox import Handle

MAIL = (
    "To: ada@example.com\r\nSubject: <Hello>\r\n\r\nOpen https://web.test/verify?token=1&x=2 now\r\n..\r\n<script>\r\n"
)


@pytest.fixture
def box() -> Iterator[Handle]:
    with mailbox() as handle:
        with smtplib.SMTP("127.0.0.1", handle.smtp_port) as sender:
            sender.sendmail("freezes@example.com", ["ada@example.com"], MAIL)
            sender.sendmail("freezes@example.com", ["eve@example.com"], MAIL.replace("<Hello>", "Again"))
        yield handle


def test_mailbox_lists_mails_as_json_newest_first(box: Handle) -> None:
    newest, oldest = httpx.get(box.url + "/mails.json").json()
    assert (newest["subject"], oldest["subject"]) == ("Again", "<Hello>")
    assert oldest["recipients"] == ["ada@example.com"]
    assert oldest["links"] == ["https://web.test/verify?token=1&x=2"]
    assert "\n..\n" in oldest["text"]


def test_mailbox_filters_by_recipient(box: Handle) -> None:
    [mail] = httpx.get(box.url + "/mails.json", params={"to": "ada@example.com"}).json()
    assert mail["subject"] == "<Hello>"


def test_mailbox_page_has_links(box: Handle) -> None:
    page = httpx.get(box.url).text
    assert '<a href="https://web.test/verify?token=1&amp;x=2">' in page
    assert "&lt;Hello&gt;" in page
    assert "<script>" not in page


def test_mailbox_waits_for_a_mail(box: Handle) -> None:
    assert len(box.mailbox.wait_for("ada@example.com")) == 1
    with pytest.raises(TimeoutError):
        box.mailbox.wait_for("ada@example.com", 2, timeout=0.05)


def test_empty_mailbox_shows_a_message() -> None:
    with mailbox() as handle:
        assert "No mail was sent yet." in httpx.get(handle.url).text
        assert httpx.get(handle.url + "/nothing").status_code == 404
