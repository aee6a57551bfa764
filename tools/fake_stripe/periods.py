"""Billing periods, by the calendar."""

from datetime import UTC, datetime

from dateutil.relativedelta import relativedelta

from tools.fake_stripe.store import Json

DAY = 86_400
_LENGTHS = {"month": relativedelta(months=1), "year": relativedelta(years=1)}


def end_of_period(anchor: int, recurring: Json, start: int) -> int:
    """Return the end of the period that begins at `start`: the next whole number of intervals after the anchor.

    Counted from the anchor, so that a subscription of the 31st is billed on the last day of shorter months only.
    """
    began, count = datetime.fromtimestamp(anchor, UTC), 1
    while True:
        end = int((began + count * _LENGTHS[recurring["interval"]]).timestamp())
        if end > start:
            return end
        count += 1
