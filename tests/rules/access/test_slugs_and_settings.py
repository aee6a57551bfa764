"""Names for addresses, settings of organisations."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.access.organization_settings import OrganizationSettings
from rules.access.slugs import MAX_SLUG_LENGTH, slug_of

NOW = datetime(2026, 11, 20, 16, tzinfo=UTC)
SECOND = timedelta(seconds=1)


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
def test_slug_has_plain_characters(name: str, slug: str) -> None:
    assert slug_of(name) == slug


@given(st.text(max_size=100))
def test_slug_is_bounded_and_idempotent(name: str) -> None:
    slug = slug_of(name)
    assert 1 <= len(slug) <= MAX_SLUG_LENGTH
    assert slug_of(slug) == slug


def test_organization_settings_have_defaults() -> None:
    assert OrganizationSettings.from_json({}).as_json() == {
        "approval": "admin",
        "selfApproval": False,
        "timezone": "UTC",
        "checkText": "full",
    }


def test_organization_settings_keep_known_keys_and_drop_unknown_ones() -> None:
    settings = {"approval": "member", "selfApproval": True, "timezone": "Asia/Tokyo", "checkText": "public"}
    assert OrganizationSettings.from_json({**settings, "colour": "red"}).as_json() == settings
