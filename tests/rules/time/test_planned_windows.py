"""Which planned windows cover branches, and until when they do."""

from datetime import UTC, datetime, timedelta

from rules.freezes.scope import FreezableBranch
from rules.time.planned_windows import NamedBranch, PlannedWindow, end_of_cover, windows_by_branch

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
BRANCHES = [
    NamedBranch(FreezableBranch(f"wbr_{name}", f"rep_{name}", f"acme/{name}", "main"), [f"rep_{name}", f"acme/{name}"])
    for name in ("api", "docs", "web")
]


def window(schedule: str, hour: int, **scope: object) -> PlannedWindow:
    start = NOON + hour * HOUR
    return PlannedWindow(f"occ_{schedule}_{hour}", schedule, scope or {"type": "organization"}, start, start + HOUR)


def test_windows_of_branches_are_those_of_their_schedules_in_order() -> None:
    everything = [window("sch_all", hour) for hour in (5, 1, 3)]
    of_web = [window("sch_web", hour, type="repositories", repositories=["acme/web"]) for hour in (4, 2)]
    found = windows_by_branch(BRANCHES, [*everything, *of_web])
    starts = {branch: [one.id for one in windows] for branch, windows in found.items()}
    of_all = ["occ_sch_all_1", "occ_sch_all_3", "occ_sch_all_5"]
    assert starts == {
        "wbr_api": of_all,
        "wbr_docs": of_all,
        "wbr_web": sorted([*of_all, *(w.id for w in of_web)], key=lambda one: one[-1]),
    }
    assert found["wbr_api"] is found["wbr_docs"]  # made once for all of them


def test_cover_ends_at_the_first_gap_and_reads_no_span_after_it() -> None:
    spans = iter([(NOON - HOUR, NOON + HOUR), (NOON + HOUR, NOON + 2 * HOUR), (NOON + 3 * HOUR, None), (NOON, None)])
    assert end_of_cover(NOON, spans) == NOON + 2 * HOUR
    assert list(spans) == [(NOON, None)]
