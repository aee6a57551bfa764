"""What of GitHub's log did not arrive, and when the log is no longer enough."""

from datetime import UTC, datetime, timedelta

import pytest

from rules.webhook_log import KEPT, OVERLAP, Content, LogEntry, Mark, is_out_of_date, missing, was_cut_off

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


def entry(
    number: int, guid: str = "", *, failed: bool = True, content: Content = "request", seconds: float = 0
) -> LogEntry:
    return LogEntry(number, guid or str(number), NOON + timedelta(seconds=seconds), failed, "push", content)


def missed(entries: list[LogEntry], *stored: str) -> tuple[list[int], list[int]]:
    found = missing(entries, stored)
    return [each.id for each in found.requests], [each.id for each in found.checks]


class TestMissing:
    def test_missing_is_what_failed_and_is_not_stored_oldest_first(self) -> None:
        assert missed([entry(3, seconds=2), entry(2, seconds=1), entry(1)], "2") == ([1, 3], [])

    def test_missing_includes_what_somebody_else_answered(self) -> None:
        assert missed([entry(1, failed=False)]) == ([1], [])

    def test_delivery_without_content_is_never_missing(self) -> None:
        assert missed([entry(1, content="nothing")]) == ([], [])

    def test_check_that_arrived_is_not_missing_although_it_is_not_stored(self) -> None:
        assert missed([entry(1, failed=False, content="check"), entry(2, content="check")]) == ([], [2])

    def test_redelivery_is_the_same_delivery(self) -> None:
        both = [entry(2, "a", seconds=5), entry(1, "a")]
        assert missed(both) == ([2], [])
        assert missed(both, "a") == ([], [])

    def test_check_is_not_missing_once_its_redelivery_arrived(self) -> None:
        again = [entry(2, "a", failed=False, content="check", seconds=5), entry(1, "a", content="check")]
        assert missed(again) == ([], [])


class TestMark:
    MARK = Mark(since=NOON - timedelta(hours=1), read_at=NOON, last_id=7, last_at=NOON)

    def test_next_reading_reads_a_minute_again(self) -> None:
        after = self.MARK.advanced(entry(8), NOON, all_read=False)
        assert (after.since, after.last_id, after.last_at) == (NOON - OVERLAP, 8, NOON)

    def test_next_reading_begins_after_what_was_read_from_github(self) -> None:
        after = self.MARK.advanced(entry(8), NOON, all_read=True)
        assert after.since == NOON
        assert after.advanced(entry(9, seconds=1), NOON, all_read=False).since == NOON

    def test_empty_log_has_no_last_entry(self) -> None:
        later = NOON + timedelta(seconds=15)
        assert self.MARK.advanced(None, later, all_read=False) == Mark(self.MARK.since, later)

    @pytest.mark.parametrize(
        ("ids", "age", "cut_off"),
        [
            ({7, 6}, timedelta(), False),
            ({8}, timedelta(), True),
            (set[int](), KEPT - timedelta(seconds=1), True),
            (set[int](), KEPT, False),
        ],
    )
    def test_log_was_cut_off_if_its_last_entry_is_gone_too_early(
        self, ids: set[int], age: timedelta, cut_off: bool
    ) -> None:
        assert was_cut_off(self.MARK, ids, NOON + age) is cut_off
        assert not was_cut_off(Mark(NOON, NOON), ids, NOON + age)

    def test_mark_is_out_of_date_when_github_may_have_lost_deliveries(self) -> None:
        assert not is_out_of_date(self.MARK, NOON + KEPT)
        assert is_out_of_date(self.MARK, NOON + KEPT + timedelta(seconds=1))
