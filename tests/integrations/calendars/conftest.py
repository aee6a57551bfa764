"""Calendars are read without a limit of wall-clock time: what other processes do would decide."""

import pytest

from integrations.calendars import ics


@pytest.fixture(autouse=True)
def _any_wall_clock_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ics, "TIMEOUT_SECONDS", None)
