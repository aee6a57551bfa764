"""A restored database is recognized by where it runs; a fail-over only if it is certain."""

from dataclasses import replace
from datetime import timedelta

import pytest

from rules.restores import MAX_FAILOVER, Identity, difference, is_failover

HERE = Identity(system_identifier=7_000, database_oid=16_384, table_oid=17_000, timeline=1)
NO_SILENCE = timedelta(seconds=2)


def test_database_that_runs_where_it_ran_differs_in_nothing() -> None:
    assert difference(HERE, replace(HERE)) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"system_identifier": 8_000}, "another cluster (system identifier 8000, not 7000)"),
        ({"system_identifier": 8_000, "database_oid": 5, "table_oid": 9, "timeline": 3}, "another cluster"),
        ({"database_oid": 5}, "another database of the cluster (OID 5, not 16384)"),
        ({"database_oid": 5, "table_oid": 9}, "another database of the cluster"),
        ({"table_oid": 9}, "its tables were made again"),
        ({"timeline": 2}, "(timeline 2, not 1)"),
    ],
)
def test_difference_names_the_widest_one_alone(changes: dict[str, int], words: str) -> None:
    found = difference(HERE, replace(HERE, **changes))
    assert found is not None
    assert words in found
    assert "timeline" not in found or "timeline" in words


@pytest.mark.parametrize(
    ("changes", "silence", "expected"),
    [
        ({"timeline": 2}, NO_SILENCE, True),
        ({"timeline": 9}, MAX_FAILOVER, True),
        ({"timeline": 2}, MAX_FAILOVER + timedelta(seconds=1), False),
        ({"timeline": 0}, NO_SILENCE, False),
        ({}, NO_SILENCE, False),
        ({"timeline": 2, "system_identifier": 8_000}, NO_SILENCE, False),
        ({"timeline": 2, "database_oid": 5}, NO_SILENCE, False),
        ({"timeline": 2, "table_oid": 9}, NO_SILENCE, False),
    ],
)
def test_failover_is_a_later_timeline_alone_just_after_the_service_ran(
    changes: dict[str, int], silence: timedelta, expected: bool
) -> None:
    assert is_failover(HERE, replace(HERE, **changes), silence) is expected
