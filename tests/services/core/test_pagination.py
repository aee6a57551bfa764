"""Cursors of lists; their pages are in `tests/contract/test_lists.py`."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.errors import ServiceError
from services.core.pagination import read_cursor, sign_cursor

SECRETS = (b"a secret of tests only",)
BOUND = ("list_freezes", "org_1", {"state": "in_force", "repo": None})
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@given(st.tuples(st.text(max_size=50), st.integers(-(2**53), 2**53), st.datetimes(timezones=st.just(UTC))))
def test_cursor_is_read_as_its_position(position: tuple[Any, ...]) -> None:
    assert read_cursor(SECRETS, BOUND, sign_cursor(SECRETS, BOUND, position)) == position


def test_cursor_of_the_previous_secret_is_read_and_new_ones_use_the_new() -> None:
    old, new = b"the previous secret", b"the new secret"
    before = sign_cursor((old,), BOUND, ("a",))
    assert read_cursor((new, old), BOUND, before) == ("a",)
    during = sign_cursor((new, old), BOUND, ("b",))
    assert read_cursor((new,), BOUND, during) == ("b",)
    for secrets, cursor in (((new,), before), ((old,), during)):
        with pytest.raises(ServiceError, match="Invalid cursor"):
            read_cursor(secrets, BOUND, cursor)


def test_cursor_treats_an_absent_filter_as_none() -> None:
    cursor = sign_cursor(SECRETS, BOUND, ("a",))
    assert read_cursor(SECRETS, ("list_freezes", "org_1", {"state": "in_force"}), cursor) == ("a",)


@pytest.mark.parametrize(
    ("secrets", "bound"),
    [
        ((b"another secret",), BOUND),
        (SECRETS, ("list_branches", *BOUND[1:])),
        (SECRETS, ("list_freezes", "org_2", BOUND[2])),
        (SECRETS, ("list_freezes", "org_1", {"state": "ended"})),
        (SECRETS, ("list_freezes", "org_1", {**BOUND[2], "source": "manual"})),
    ],
    ids=["secret", "operation", "organisation", "filter", "another filter"],
)
def test_cursor_of_another_list_is_rejected(secrets: tuple[bytes, ...], bound: tuple[str, str, Any]) -> None:
    with pytest.raises(ServiceError) as refused:
        read_cursor(secrets, bound, sign_cursor(SECRETS, BOUND, ("a",)))
    assert refused.value.code == "invalid_cursor"


@given(st.one_of(st.text(max_size=200), st.binary(max_size=100).map(lambda raw: raw.hex())))
def test_malformed_cursor_is_rejected(text: str) -> None:
    with pytest.raises(ServiceError) as refused:
        read_cursor(SECRETS, BOUND, text)
    assert refused.value.code == "invalid_cursor"


@given(st.integers(min_value=0), st.sampled_from("AZaz09-_="))
def test_altered_cursor_is_rejected(place: int, letter: str) -> None:
    cursor = sign_cursor(SECRETS, BOUND, ("a", 1, NOON))
    at = place % (len(cursor) - 1)
    changed = cursor[:at] + letter + cursor[at + 1 :]
    if changed != cursor:
        with pytest.raises(ServiceError):
            read_cursor(SECRETS, BOUND, changed)
