"""What the API says of a freeze while a stop holds it, and afterwards."""

from tests.handlers.stops.requests import Stopped

HELD = "A stop holds it until the checks are written."


def test_freeze_is_blocked_by_a_stop_before_it_is_enforced(stopped: Stopped) -> None:
    stopped.start()
    shown = stopped.freeze()
    assert shown["startedAt"] < shown["blockedAt"]
    assert shown["enforcedAt"] is None
    assert {name: shown["targets"][name] for name in ("blocked", "unprotected", "stopped")} == {
        "blocked": 1,
        "unprotected": 0,
        "stopped": 1,
    }
    assert stopped.frozen.merge(stopped.number) == 405


def test_freeze_keeps_the_time_of_its_stop_once_it_is_enforced(stopped: Stopped) -> None:
    stopped.start()
    before = stopped.freeze()["blockedAt"]
    stopped.frozen.settle()
    stopped.stop()
    shown = stopped.freeze()
    assert shown["blockedAt"] == before < shown["enforcedAt"]
    assert shown["targets"]["stopped"] == 0
    details = stopped.audited("freeze.enforced")
    assert (details["blockedAt"], details["enforcedAt"]) == (before, shown["enforcedAt"])


def test_freeze_is_not_shown_as_blocked_once_it_is_not(stopped: Stopped) -> None:
    stopped.start()
    stopped.workers.sql("UPDATE branch_enforcement SET stop = NULL")
    shown = stopped.freeze()
    assert (shown["blockedAt"], shown["targets"]["stopped"], shown["targets"]["unprotected"]) == (None, 0, 1)


def test_freeze_that_only_lacks_the_time_of_blocking_keeps_its_own(stopped: Stopped) -> None:
    stopped.start()
    stopped.frozen.settle()
    stopped.stop()
    before = stopped.freeze()["enforcedAt"]
    stopped.workers.sql("UPDATE freezes SET blocked_at = NULL")
    stopped.frozen.review()
    shown = stopped.freeze()
    assert shown["blockedAt"] == shown["enforcedAt"] == before


def test_branch_and_pull_request_say_that_a_stop_holds_them(stopped: Stopped) -> None:
    freeze_id = stopped.start()
    [target] = stopped.get(f"/v1/freezes/{freeze_id}/targets")["data"]
    [branch] = stopped.get("/v1/repos/acme%2Fweb/branches")["data"]
    pull = stopped.get("/v1/pulls/lookup", ref=f"acme/web#{stopped.number}")
    for shown in (target, branch, pull):
        assert (shown["blocking"]["state"], shown["blocking"]["byStop"]) == ("blocked", True)
        assert shown["blocking"]["message"].endswith(HELD)
    stopped.frozen.settle()
    pull = stopped.get("/v1/pulls/lookup", ref=f"acme/web#{stopped.number}")
    assert (pull["blocking"]["byStop"], HELD in pull["blocking"]["message"]) == (False, False)


def test_overview_counts_the_branches_that_stops_hold(stopped: Stopped) -> None:
    stopped.start()
    blocking = stopped.get("/v1/overview")["blocking"]
    assert (blocking["blocked"], blocking["stopped"]) == (1, 1)
