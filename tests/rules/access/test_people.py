"""Names for addresses, states of invitations, settings of organisations."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.access.invitations import state_at
from rules.access.organization_settings import OrganizationSettings
from rules.access.slugs import LONGEST_SLUG, slug_of

NOW = datetime(2026, 11, 20, 16, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class Row:
    expires_at: datetime = NOW + SECOND
    accepted_at: datetime | None = None
    revoked_at: datetime | None = None


@pytest.mark.parametrize(
    ("row", "state"),
    [
        (Row(), "pending"),
        (Row(expires_at=NOW), "expired"),
        (Row(expires_at=NOW - SECOND), "expired"),
        (Row(accepted_at=NOW), "accepted"),
        (Row(accepted_at=NOW, expires_at=NOW - SECOND), "accepted"),
        (Row(revoked_at=NOW), "revoked"),
        (Row(revoked_at=NOW, expires_at=NOW - SECOND), "revoked"),
    ],
    ids=repr,
)
def test_the_state_of_an_invitation_follows_from_its_instants(row: Row, state: str) -> None:
    assert state_at(NOW, row) == state


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("Acme", "acme"),
        ("Eve's organisation", "eves-organisation"),
        ("Müller & Söhne GmbH", "muller-sohne-gmbh"),
        ("  --A..b__C--  ", "a-b-c"),
        ("株式会社", "organization"),
        ("!", "organization"),
        ("x" * 39 + " y", "x" * 39),
    ],
)
def test_a_slug_is_plain(name: str, slug: str) -> None:
    assert slug_of(name) == slug


@given(st.text(max_size=100))
def test_a_slug_is_never_empty_nor_long_and_stays_what_it_is(name: str) -> None:
    slug = slug_of(name)
    assert 1 <= len(slug) <= LONGEST_SLUG
    assert slug_of(slug) == slug


def test_what_is_not_set_has_a_default() -> None:
    assert OrganizationSettings.from_json({}).as_json() == {
        "approval": "admin",
        "selfApproval": False,
        "timezone": "UTC",
    }


def test_what_is_set_is_kept_and_what_is_unknown_left_out() -> None:
    settings = {"approval": "member", "selfApproval": True, "timezone": "Asia/Tokyo"}
    assert OrganizationSettings.from_json({**settings, "colour": "red"}).as_json() == settings
