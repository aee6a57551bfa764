"""Mails of events: who gets one, what it says, and that a hostile reason stays text."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.notifications import MailChoice
from models.organizations import Organization, User
from rules.access.permissions import SYSTEM
from rules.notifications.kinds import UPCOMING, kind_of
from rules.notifications.mails import MAILED_KINDS
from rules.web_addresses import WebOrigin
from services.core.ports import Ports
from services.core.rotated_secrets import SecretKey
from services.core.unit_of_work import Caller, UnitOfWorkFactory
from services.events.event import Event
from services.mail.delivery import send_due
from services.notifications.mail_notices import MAX_LISTED, take_events
from services.organizations.members import remove
from tests import factories
from tests.harness.mail import mail_server
from tests.harness.sessions import id_of
from tests.services.conftest import UnitOfWorkOpener
from tests.services.notifications.conftest import Record
from tools.mailbox import Handle
from tools.mailbox.mails import ReceivedMail

HOSTILE = "<script>alert(1)</script> see https://evil.example\r\nBcc: everyone@evil.example"
Join = Callable[..., User]
Given = Callable[..., dict[str, ReceivedMail]]
Received = Callable[[], dict[str, ReceivedMail]]


@pytest.fixture
def join(session: Session, acme: Organization) -> Join:
    """Add a member since yesterday: `join("Ada", "admin", kinds=[…], minutes=[…])`; by default they have not chosen."""

    def joined(name: str, role: str = "member", kinds: list[str] | None = None, minutes: Sequence[int] = ()) -> User:
        person = factories.user(session, name)
        factories.membership(session, acme, person, role).created_at = factories.now() - timedelta(days=1)
        session.flush()
        if kinds is not None or minutes:
            of = {"organization_id": acme.id, "user_id": person.id, "updated_at": factories.now()}
            session.add(MailChoice(**of, kinds=kinds, remind_before=list(minutes)))
        session.commit()
        return person

    return joined


def event(action: str, by: User | None = None, **values: Any) -> Event:
    """Return what happened now to a freeze, done by a person or by the service."""
    actor = SYSTEM.as_json() if by is None else {"type": "user", "id": by.id, "name": by.name}
    given: dict[str, Any] = {
        "organization_id": "org_1",
        "sequence": 1,
        "entry_id": "aud_1",
        "at": factories.now(),
        "action": action,
        "kind": UPCOMING if action == UPCOMING else kind_of(action),
        "actor": actor,
        "source": "dashboard",
        "target": {"type": "freeze", "id": "frz_1", "name": "Quarter-end close"},
        "details": {},
        "request_id": None,
    }
    return Event(**given | values)


def upcoming(minutes: int, *windows: str, reason: str = "No staff") -> Event:
    """Return the announcement of windows with these names, so many minutes before."""
    listed = [
        {
            "scheduleId": f"sch_{name}",
            "scheduleName": name,
            "startsAt": "2026-11-23T17:00:00Z",
            "reason": reason,
            "remindBefore": [minutes],
        }
        for name in windows
    ]
    return event(UPCOMING, details={"minutes": minutes, "windows": listed})


@pytest.fixture
def received(session: Session, jobs: UnitOfWorkFactory, box: Handle) -> Received:
    """Deliver the mails that wait, and return what the mailbox has, by the name of the person, who has one."""
    around = Ports(WebOrigin("https://freezes.test"), SecretKey(b"a secret of the tests"), mail_server(box))
    jobs.ports = around

    def deliver() -> dict[str, ReceivedMail]:
        while send_due(jobs):
            pass
        names = {person.email: person.name for person in session.scalars(select(User))}
        session.rollback()
        found = {names[mail.recipients[0]]: mail for mail in box.mailbox.mails}
        assert len(found) == len(box.mailbox.mails)
        return found

    return deliver


@pytest.fixture
def given(acme: Organization, jobs: UnitOfWorkFactory, received: Received) -> Given:
    """Give events to the members of acme, and return the mail that each receives by their name."""

    def take(*events: Event) -> dict[str, ReceivedMail]:
        organization_id = id_of(acme)
        with jobs.open(Caller(organization_id, SYSTEM, "system")) as uow:
            take_events(uow, organization_id, [replace(one, organization_id=organization_id) for one in events])
        return received()

    return take


def names(found: Iterable[str]) -> list[str]:
    return sorted(found)


class TestReaders:
    def test_only_those_who_chose_a_kind_get_a_mail(self, join: Join, given: Given) -> None:
        join("Ada", "viewer", ["freeze.started"])
        join("Grace", "owner")
        assert names(given(event("freeze.started"))) == ["Ada"]

    def test_administrators_who_have_not_chosen_get_what_they_can_act_on(self, join: Join, given: Given) -> None:
        join("Ada", "admin")
        join("Grace", "member")
        assert names(given(event("freeze.bypassed", target={"type": "branch", "id": "wbr_1", "name": "x"}))) == ["Ada"]

    def test_requests_go_to_those_who_may_decide_but_not_to_the_requester(
        self, session: Session, acme: Organization, join: Join, given: Given
    ) -> None:
        join("Ada", "admin")
        join("Alan", "member")
        requester = join("Grace", "owner")
        request = event("exception.requested", requester, target={"type": "exception", "id": "exc_1", "name": "a/b#1"})
        assert names(given(request)) == ["Ada"]

    def test_requests_go_to_members_where_they_may_decide(
        self, session: Session, acme: Organization, join: Join, given: Given
    ) -> None:
        acme.settings = {"approval": "member"}
        session.commit()
        join("Alan", "member")
        join("Vera", "viewer")
        request = event("exception.requested", target={"type": "exception", "id": "exc_1", "name": "a/b#1"})
        assert names(given(request)) == ["Alan"]

    def test_decisions_go_to_the_requester_alone(
        self, session: Session, acme: Organization, join: Join, given: Given
    ) -> None:
        decider, requester = join("Ada", "admin"), join("Grace")
        join("Alan", "owner")
        factories.installation(session, acme)
        repository = factories.repository(session, acme)
        branch, pull = factories.branch(session, repository), factories.pull_request(session, repository)
        row = factories.exception(session, factories.freeze(session, acme, [branch]), pull, branch)
        row.requested_by = {"type": "user", "id": requester.id, "name": requester.name}
        session.commit()
        target = {"type": "exception", "id": row.request_group_id, "name": "acme/web#1"}
        assert names(given(event("exception.granted", decider, target=target))) == ["Grace"]

    def test_people_get_no_mail_of_what_happened_before_they_joined(self, join: Join, given: Given) -> None:
        join("Ada", "owner", ["freeze.started"])
        assert given(event("freeze.started", at=factories.now() - timedelta(days=2))) == {}

    def test_person_who_left_gets_no_mail_and_loses_their_choice(
        self, session: Session, acme: Organization, join: Join, given: Given, unit_of: UnitOfWorkOpener
    ) -> None:
        join("Grace", "owner")
        ada = join("Ada", "member", ["freeze.started"])
        with unit_of(acme) as uow:
            remove(uow, ada.id)
        assert given(event("freeze.started")) == {}
        assert session.scalars(select(MailChoice)).all() == []

    def test_windows_are_announced_to_those_who_chose_these_minutes(self, join: Join, given: Given) -> None:
        join("Ada", minutes=(60,))
        join("Grace", minutes=(15,))
        assert names(given(upcoming(60, "Nights"))) == ["Ada"]


class TestContents:
    def test_mail_says_what_happened_and_links_to_its_page_and_to_the_choice(self, join: Join, given: Given) -> None:
        join("Ada", "viewer", ["freeze.started"])
        mail = given(event("freeze.started", details={"reason": "x"}))["Ada"]
        assert "- Change-Freeze Service started a freeze: Quarter-end close." in mail.text
        assert "https://freezes.test/freezes/frz_1" in mail.text
        assert "https://freezes.test/settings/notifications" in mail.text

    def test_events_at_once_are_one_mail(self, join: Join, given: Given) -> None:
        join("Ada", "viewer", ["freeze.started", "freeze.ended"])
        mail = given(event("freeze.started"), event("freeze.extended"), event("freeze.lifted"))["Ada"]
        assert mail.text.count("\n- ") == 2

    def test_thousand_windows_at_once_are_one_short_mail(self, join: Join, given: Given) -> None:
        join("Ada", minutes=(60,))
        mail = given(upcoming(60, *(f"Schedule {number}" for number in range(1000))))["Ada"]
        assert mail.text.count("\n- ") == MAX_LISTED + 1
        assert f"and {1000 - MAX_LISTED} more" in mail.text

    def test_hostile_reason_stays_text(self, join: Join, given: Given) -> None:
        join("Ada", "viewer", ["freeze.started"], minutes=(60,))
        target = {"type": "freeze", "id": "frz_1", "name": HOSTILE}
        mail = given(event("freeze.started", target=target), upcoming(60, HOSTILE, reason=HOSTILE))["Ada"]
        assert "<script>" not in mail.html
        for part in (mail.subject, mail.text, mail.html):
            assert "https://evil.example" not in part
            assert "\r" not in part
            assert not any(line.startswith("Bcc:") for line in part.splitlines())


PULL = {"type": "exception", "id": "exc_1", "name": "acme/shop#123"}
BRANCH = {"type": "branch", "id": "wbr_1", "name": "acme/shop:main"}


class TestSubjects:
    @pytest.mark.parametrize(
        ("action", "target", "subject"),
        [
            ("exception.requested", PULL, "Exception requested: acme/shop#123 (Acme)"),
            ("exception.used", PULL, "Merged with an exception: acme/shop#123 (Acme)"),
            ("freeze.bypassed", BRANCH, "Changed in spite of a freeze: acme/shop:main (Acme)"),
            ("enforcement.lost", BRANCH, "Freezes no longer block: acme/shop:main (Acme)"),
        ],
    )
    def test_subject_names_what_one_event_is_about(
        self, join: Join, given: Given, action: str, target: dict[str, str], subject: str
    ) -> None:
        join("Ada", "owner", list(MAILED_KINDS))
        assert given(event(action, target=target, details={"reason": "A hotfix"}))["Ada"].subject == subject

    @pytest.mark.parametrize(
        ("action", "what"),
        [
            ("freeze.started", "Freeze started"),
            ("freeze.lifted", "Freeze lifted"),
            ("freeze.enforced", "Freeze blocks"),
        ],
    )
    def test_subject_names_the_branch_of_a_freeze(
        self, session: Session, acme: Organization, join: Join, given: Given, action: str, what: str
    ) -> None:
        join("Ada", "viewer", list(MAILED_KINDS))
        factories.installation(session, acme)
        branch = factories.watched(session, acme, "acme/shop")
        frozen = factories.freeze(session, acme, [branch], scope={"type": "branch", "branchId": branch.id})
        session.commit()
        target = {"type": "freeze", "id": frozen.id, "name": frozen.reason}
        assert given(event(action, target=target))["Ada"].subject == f"{what}: acme/shop:main (Acme)"

    def test_subject_of_several_events_names_the_most_important(self, join: Join, given: Given) -> None:
        join("Ada", "owner", list(MAILED_KINDS), minutes=(60,))
        mail = given(
            event("freeze.started"),
            upcoming(60, "Nights"),
            event("exception.requested", target=PULL),
            event("freeze.lifted"),
        )["Ada"]
        assert mail.subject == "Exception requested: acme/shop#123 and 3 more (Acme)"
        assert mail.text.splitlines()[2].startswith("- Change-Freeze Service requested an exception for acme/shop#123")

    def test_long_names_leave_the_number_and_the_count_in_the_subject(self, join: Join, given: Given) -> None:
        join("Ada", "owner")
        pull = {**PULL, "name": f"{'a' * 39}/{'b' * 100}#2147483647"}
        mail = given(*[event("exception.requested", target=pull)] * 1234)["Ada"]
        assert re.fullmatch(r"Exception requested: a{30,39}…#2147483647 and 1,233 more \(Acme\)", mail.subject)


class TestButtons:
    """Each of these mails has one button in HTML, and its label and address in the plain text."""

    def test_mail_of_several_events_of_one_freeze_leads_to_it(self, join: Join, given: Given) -> None:
        join("Ada", "owner", list(MAILED_KINDS))
        mail = given(event("freeze.started"), event("freeze.enforced", details={"targets": 1}))["Ada"]
        assert button_of(mail) == ("https://freezes.test/freezes/frz_1", "Open the freeze")

    def test_mail_of_windows_of_several_schedules_leads_to_the_calendar(self, join: Join, given: Given) -> None:
        join("Ada", minutes=(60,))
        mail = given(upcoming(60, "Nights", "Weekends"))["Ada"]
        assert button_of(mail) == ("https://freezes.test/calendar", "Open the calendar")


def button_of(mail: ReceivedMail) -> tuple[str, str]:
    """Return the address and label of the one button of a mail, whose other links are plain; fail for other mails."""
    links = re.findall(r'<a href="([^"]*)" style="([^"]*)">([^<]*)</a>', mail.html)
    [(url, _, label)] = [link for link in links if "background" in link[1]]
    assert len(links) == 2
    assert without_organization(unescape(links[-1][0])) == "https://freezes.test/settings/notifications"
    found = unescape(url), unescape(label)
    assert f"{found[1]}:\n{found[0]}\n" in mail.text
    return without_organization(found[0]), found[1]


def without_organization(url: str) -> str:
    """Return an address of a mail without the organisation that it names."""
    left, named = re.subn(r"[?&]organization=org_[a-z0-9]+", "", url)
    assert named == 1
    return left


def test_dispatch_writes_the_mails_of_what_happened(
    join: Join,
    received: Received,
    acme: Organization,
    record: Record,
    add: Callable[..., str],
    dispatch_all: Callable[[], int],
) -> None:
    join("Ada", "viewer", ["freeze.started"])
    add(acme.id, "mail")
    record("freeze.started", "freeze.extended", "freeze.started")
    assert dispatch_all() == 1
    assert received()["Ada"].text.count("Quarter-end close") == 2
