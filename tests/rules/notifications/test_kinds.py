"""The table of kinds of notification."""

from rules.audit.actions import ACTIONS
from rules.notifications.kinds import BY_IMPORTANCE, KINDS, NOTIFIED_ACTIONS, UPCOMING, kind_of


def test_every_action_of_a_kind_exists() -> None:
    assert ACTIONS.keys() >= NOTIFIED_ACTIONS


def test_every_action_has_one_kind() -> None:
    named = [action for kind in KINDS.values() for action in kind.actions]
    assert sorted(named) == sorted(set(named))
    assert {action: kind_of(action) for action in named} == {
        action: name for name, kind in KINDS.items() for action in kind.actions
    }


def test_only_upcoming_windows_have_no_action() -> None:
    assert [name for name, kind in KINDS.items() if not kind.actions] == [UPCOMING]


def test_other_actions_have_no_kind() -> None:
    assert kind_of("freeze.extended") is None


def test_every_kind_has_an_importance() -> None:
    assert sorted(BY_IMPORTANCE) == sorted(KINDS)
