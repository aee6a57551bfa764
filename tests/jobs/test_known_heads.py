"""Since when the head of a pull request is known: a label counts from then on, and only for this head and base."""

from datetime import datetime

import pytest

from tests.harness.github_harness import Builder, Harness
from tests.jobs.pull_request_exceptions.grants import now, pass_by, row_of
from tools.fake_github.model.records import PullRequest


@pytest.fixture
def pull(harness: Harness, build: Builder) -> PullRequest:
    """Return a pull request whose head was read a minute ago."""
    [pull] = build("web", pulls=1)
    harness.fake_github.organization("acme").repository("web").branch("release/8")
    harness.run_until_idle()
    pass_by(harness, minutes=1)
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
    body = {"message": "more", "content": "bW9yZQ==", "branch": pull.head_ref}
    harness.person("PUT", "/repos/acme/web/contents/more.txt", body)

    assert known_since(harness, pull) >= began


def test_head_is_known_anew_after_it_was_closed(harness: Harness, pull: PullRequest) -> None:
    harness.person("PATCH", f"/repos/acme/web/pulls/{pull.number}", {"state": "closed"})
    harness.make_due()
    harness.run_until_idle()
    pass_by(harness, minutes=1)
    began = now(harness)
    harness.person("PATCH", f"/repos/acme/web/pulls/{pull.number}", {"state": "open"})

    assert known_since(harness, pull) >= began


def test_head_that_a_former_release_reads_is_not_known(harness: Harness, pull: PullRequest) -> None:
    """It changes the head, and does not say when it was read; the next reading does."""
    harness.sql("UPDATE pull_requests SET head_sha = repeat('a', 40)")
    assert row_of(harness, pull.number).head_since is None
    began = now(harness)

    assert known_since(harness, pull) >= began
