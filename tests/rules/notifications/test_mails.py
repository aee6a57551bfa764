"""Who gets a mail of what."""

import pytest

from rules.access.permissions import Role
from rules.notifications.kinds import KINDS
from rules.notifications.mails import MAILED_KINDS, MailReader, default_kinds


def reader(role: Role = "member", approval: Role = "admin", kinds: tuple[str, ...] = MAILED_KINDS) -> MailReader:
    return MailReader("usr_ada", role, kinds, approval)


@pytest.mark.parametrize("role", ["viewer", "member"])
def test_people_are_mailed_of_exceptions_by_default(role: Role) -> None:
    assert default_kinds(role) == ("exception.requested", "exception.decided")


@pytest.mark.parametrize("role", ["admin", "owner"])
def test_administrators_are_also_mailed_of_missing_enforcement_by_default(role: Role) -> None:
    assert set(default_kinds(role)) - set(default_kinds("member")) == {
        "freeze.bypassed",
        "enforcement.lost",
        "enforcement.late",
    }


def test_every_kind_but_upcoming_windows_can_be_chosen() -> None:
    assert KINDS.keys() - MAILED_KINDS == {"window.upcoming"}


def test_person_gets_only_the_kinds_they_chose() -> None:
    assert reader(kinds=("freeze.started",)).wants("freeze.started", "usr_grace", ())
    assert not reader(kinds=("freeze.started",)).wants("freeze.ended", "usr_grace", ())


def test_person_gets_nothing_of_what_they_did() -> None:
    assert not reader().wants("freeze.started", "usr_ada", ())
    assert reader().wants("freeze.started", "usr_grace", ())


@pytest.mark.parametrize(
    ("role", "approval", "wanted"),
    [("member", "admin", False), ("admin", "admin", True), ("member", "member", True), ("viewer", "member", False)],
)
def test_requests_go_to_those_who_may_decide(role: Role, approval: Role, wanted: bool) -> None:
    assert reader(role, approval).wants("exception.requested", "usr_grace", ()) is wanted


def test_decisions_go_to_those_who_requested() -> None:
    assert reader().wants("exception.decided", "usr_grace", {"usr_ada"})
    assert not reader("owner").wants("exception.decided", "usr_grace", {"usr_alan"})
