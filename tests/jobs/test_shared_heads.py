"""Heads that two branches of a pattern share under its check, while two workers write one check each."""

from collections import deque
from datetime import datetime, timedelta

import pytest

from models.repositories import WatchedBranch
from rules.freezes.check_names import check_name
from services.core.work_queue import LEASE_DURATION, LeaseLostError
from services.reconcile.check_writes import WriteResult, write_checks
from services.reconcile.evaluation import CheckUpdate
from services.reconcile.reconciler import Pass
from tests.harness.github_harness import Builder, Harness
from tests.harness.people import edit, push_to_head
from tests.jobs.passes import evaluated_pass, leased_pass
from tests.jobs.pull_request_exceptions.grants import now, row_of
from tools.fake_github.model.records import PullRequest

PATTERN = "change-freeze/**"


@pytest.fixture
def sibling(harness: Harness, build: Builder) -> WatchedBranch:
    """Watch `main` and `release/8` of one repository, each with a pull request of one and the same head."""
    [pull] = build("web", pulls=1)
    web = harness.fake_github.organization("acme").repository("web")
    web.branch("release/8")
    web.pull_request(base="release/8", sharesHeadWith=pull.number)
    other = harness.watch("release/8", PATTERN)
    harness.make_due()
    harness.run_until_idle()
    harness.sql("UPDATE head_checks SET summary_hash = ''")  # so that the first worker has something to write
    make_due(harness, "main")
    return other


def sent(harness: Harness, started: Pass, decisions: list[CheckUpdate]) -> list[WriteResult]:
    assert decisions
    return write_checks(started.state.client, decisions, harness.reconciler.web_url)


def test_one_worker_at_a_time_writes_the_check_of_a_pattern(harness: Harness, sibling: WatchedBranch) -> None:
    """The first worker's call is slow; meanwhile another one writes the sibling's own check, and only that."""
    slow, allowed = evaluated_pass(harness)
    assert {update.head.key.check_name for update in allowed} == {check_name("main"), PATTERN}
    harness.freeze({"type": "branch", "branchId": sibling.id})
    quick, blocked = evaluated_pass(harness)
    assert {update.head.key.check_name for update in blocked} == {check_name(sibling.name)}
    quick._record([], sent(harness, quick, blocked))
    slow._record([], sent(harness, slow, allowed))
    assert set(harness.conclusions(PATTERN).values()) == {"success"}
    assert harness.sql("SELECT state FROM freeze_targets") == [("pending",)]
    harness.run_until_idle()
    assert set(harness.conclusions(PATTERN).values()) == {"failure"}
    assert harness.sql("SELECT state FROM freeze_targets") == [("applied",)]


def test_success_of_a_dead_worker_does_not_stay_after_a_siblings_failure(
    harness: Harness, sibling: WatchedBranch
) -> None:
    """Its branch has not been taken over yet when the sibling's worker records the head, and people close it."""
    dead, allowed = evaluated_pass(harness)
    harness.freeze({"type": "branch", "branchId": sibling.id})
    quick, blocked = evaluated_pass(harness)
    quick._record([], sent(harness, quick, blocked))
    pulls = harness.record().pulls
    for number in pulls:
        edit(harness, number, state="closed")
    harness.sql("UPDATE checks SET lease_until = clock_timestamp() - interval '1 second'")
    harness.run_until_idle()
    sent(harness, dead, allowed)
    harness.pass_time(LEASE_DURATION + timedelta(seconds=1))
    harness.run_until_idle()
    runs = harness.person("GET", f"/repos/acme/web/commits/{pulls[1].head_sha}/check-runs").json()["check_runs"]
    assert {run["conclusion"] for run in runs} == {"failure"}


def test_pass_without_leases_does_not_update_the_mirror(harness: Harness, build: Builder) -> None:
    """It has seen no pull request; meanwhile one was opened, and seen by the worker that acquired the branch."""
    build("web", pulls=0)
    asleep = leased_pass(harness)
    seen = asleep.reading.fetch()
    harness.fake_github.organization("acme").repository("web").pull_request()
    harness.sql("UPDATE checks SET lease_until = clock_timestamp() - interval '1 second'")
    harness.run_until_idle()
    assert harness.sql("SELECT state FROM pull_requests") == [("open",)]
    with pytest.raises(LeaseLostError):
        asleep.reading.mirror(seen)
    assert harness.sql("SELECT state FROM pull_requests") == [("open",)]


def test_demotion_does_not_stay_on_a_head_that_a_sibling_gets_meanwhile(
    harness: Harness, sibling: WatchedBranch
) -> None:
    """While the call is under way, people propose the head for the sibling, and a worker finds its verdict right."""
    harness.make_due()
    harness.run_until_idle()
    propose(harness, sibling, "closed")
    harness.run_until_idle()
    edit(harness, 1, state="closed")
    make_due(harness, "main")
    slow, demotions = evaluated_pass(harness)
    propose(harness, sibling, "open")
    harness.run_until_idle()
    slow._record([], sent(harness, slow, demotions))
    harness.run_until_idle()
    assert harness.conclusions(PATTERN)["acme/web#2"] == "success"


def propose(harness: Harness, sibling: WatchedBranch, state: str) -> None:
    """Close or reopen the pull request into the sibling, and have that branch read."""
    edit(harness, 2, state=state)
    make_due(harness, sibling.name)


def make_due(harness: Harness, name: str) -> None:
    due = "UPDATE checks SET due_at = date_trunc('milliseconds', clock_timestamp()) WHERE name IN (:own, :pattern)"
    harness.sql(due, own=check_name(name), pattern=PATTERN)


@pytest.fixture
def pull(harness: Harness, build: Builder) -> PullRequest:
    """Return a pull request whose head was read a minute ago."""
    [pull] = build("web", pulls=1)
    harness.fake_github.organization("acme").repository("web").branch("release/8")
    harness.run_until_idle()
    harness.pass_time(minutes=1)
    return pull


def known_since(harness: Harness, pull: PullRequest) -> datetime:
    """Return since when the head is known, after it was read again."""
    harness.make_due()
    harness.run_until_idle()
    since = row_of(harness, pull.number).head_since
    assert since is not None
    return since


def test_head_is_known_since_it_was_read_first(harness: Harness, pull: PullRequest) -> None:
    first = row_of(harness, pull.number).head_since

    assert known_since(harness, pull) == first
    assert row_of(harness, pull.number).node_id == pull.node_id


def test_head_is_known_anew_after_a_push(harness: Harness, pull: PullRequest) -> None:
    began = now(harness)
    push_to_head(harness)

    assert known_since(harness, pull) >= began


def test_head_is_known_anew_after_it_was_closed(harness: Harness, pull: PullRequest) -> None:
    edit(harness, pull.number, state="closed")
    harness.make_due()
    harness.run_until_idle()
    harness.pass_time(minutes=1)
    began = now(harness)
    edit(harness, pull.number, state="open")

    assert known_since(harness, pull) >= began


def test_head_that_a_former_release_reads_is_not_known(harness: Harness, pull: PullRequest) -> None:
    """It changes the head, and does not say when it was read; the next reading does."""
    harness.sql("UPDATE pull_requests SET head_sha = repeat('a', 40)")
    assert row_of(harness, pull.number).head_since is None
    began = now(harness)

    assert known_since(harness, pull) >= began


@pytest.fixture
def first(harness: Harness, build: Builder) -> PullRequest:
    """Return one of two pull requests of one head into `main`; `release/8` is frozen."""
    [first] = build("web", pulls=1)
    web = harness.fake_github.organization("acme").repository("web")
    web.branch("release/8").requires("change-freeze/release/8", "release/8")
    web.pull_request(base="main", sharesHeadWith=first.number)
    harness.freeze({"type": "branch", "branchId": harness.watch("release/8").id})
    harness.run_until_idle()
    return first


def retarget(harness: Harness, pull: PullRequest, base: str) -> None:
    """Do it as a person, and have the service look at both bases, as its webhook asks."""
    edit(harness, pull.number, base=base)
    harness.make_due("wanted_generation = nextval('generations')")


def test_base_that_was_read_last_stays_and_blocks(harness: Harness, first: PullRequest) -> None:
    assert set(harness.conclusions().values()) == {"success"}
    harness.make_due("wanted_generation = nextval('generations')")
    harness.sql("UPDATE checks SET due_at = NULL WHERE name = 'change-freeze/release/8'")
    slow = leased_pass(harness)
    seen = slow.reading.fetch()
    retarget(harness, first, "release/8")
    assert harness.run_until_idle() == 1
    assert harness.conclusions() == {"acme/web#1": "failure", "acme/web#2": "success"}
    planned = deque(slow._plan(slow.reading.mirror(seen)))
    slow._write_in_order(planned)
    slow._end(planned)
    harness.run_until_idle()
    assert (row_of(harness, first.number).base_branch, row_of(harness, first.number).state) == ("release/8", "open")
    assert harness.conclusions() == {"acme/web#1": "failure", "acme/web#2": "success"}
    assert harness.merge("acme/web", first.number).status_code == 405
