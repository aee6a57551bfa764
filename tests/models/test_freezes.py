"""Whether a freeze is in force follows from its instants."""

from datetime import UTC, datetime, timedelta

import pytest

from models.freezes import Freeze

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("started_at", "ends_at", "ended_at", "expected"),
    [
        pytest.param(NOON, None, None, True, id="from its very start"),
        pytest.param(NOON + HOUR, None, None, False, id="not before its start"),
        pytest.param(NOON - HOUR, NOON + HOUR, None, True, id="before its end"),
        pytest.param(NOON - HOUR, NOON, None, False, id="not at its very end"),
        pytest.param(NOON - HOUR, NOON - HOUR, None, False, id="not after its end, recorded or not"),
        pytest.param(NOON - HOUR, None, NOON, False, id="not once it was ended"),
        pytest.param(NOON - HOUR, NOON + HOUR, NOON - HOUR, False, id="not once it was ended before its time"),
    ],
)
def test_freeze_is_in_force_between_its_instants(
    started_at: datetime, ends_at: datetime | None, ended_at: datetime | None, expected: bool
) -> None:
    freeze = Freeze(started_at=started_at, ends_at=ends_at, ended_at=ended_at)
    assert freeze.is_in_force(NOON) is expected
