"""`unblocked_prs`: the whole set of pull requests that may merge during the freeze."""

from collections.abc import Callable

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.exceptions import PullRequestException
from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from tests import factories
from tests.handlers.compatibility.requests import ClassicClient, refused


@pytest.fixture
def pulls(session: Session, repository: Repository, web: WatchedBranch) -> dict[int, PullRequest]:
    """Return acme/web#3, #5 and #7, into `main`."""
    return {
        number: factories.pull_request(session, repository, number, head_sha=factories.sha(number))
        for number in (3, 5, 7)
    }


def granted(session: Session) -> list[PullRequestException]:
    session.expire_all()
    return list(session.scalars(select(PullRequestException).where(PullRequestException.revoked_at.is_(None))))


class TestUnblockedPrs:
    def test_set_is_replaced_and_emptied(self, client: ClassicClient, pulls: dict[int, PullRequest]) -> None:
        sets = (b"[3, 5]", b"5,7", b"[7]", b"[]", b"[ 3 ]")
        wanted: tuple[list[int], ...] = ([3, 5], [5, 7], [7], [], [3])
        client.change(b"frozen=true")
        for sent, numbers in zip(sets, wanted, strict=True):
            body = b"user_name=Ada&unblocked_prs=" + sent
            assert client.change(body)["unblocked_prs"] == numbers
            assert client.change(body)["unblocked_prs"] == numbers
        [one] = granted(client.session)
        assert (one.pin_to_head, one.decided_through) == (True, "compat")
        assert one.reason == "Let through by Ada (compatibility API)"

    def test_freeze_and_set_are_changed_together_or_not_at_all(
        self, client: ClassicClient, pulls: dict[int, PullRequest]
    ) -> None:
        refused(client.post(b"frozen=true&unblocked_prs=[3,99]"), 404, "pull_request_not_found")
        assert client.state()["frozen"] is False
        answer = client.change(b"frozen=true&unblocked_prs=[3]")
        assert (answer["frozen"], answer["unblocked_prs"]) == (True, [3])

    def test_exception_of_a_person_is_never_touched(self, client: ClassicClient, pulls: dict[int, PullRequest]) -> None:
        client.change(b"frozen=true")
        body = {"pullRequest": "acme/web#5", "reason": "Granted by a person"}
        assert client.acme.person("owner").post("/v1/exceptions", body).status_code == 201
        assert client.change(b"unblocked_prs=[]")["unblocked_prs"] == [5]
        assert client.change(b"unblocked_prs=[5]")["unblocked_prs"] == [5]
        assert client.change(b"unblocked_prs=[]")["unblocked_prs"] == [5]

    def test_pushed_pull_request_is_let_through_when_it_is_sent_again(
        self, client: ClassicClient, pulls: dict[int, PullRequest]
    ) -> None:
        client.change(b"frozen=true&unblocked_prs=[3]")
        pulls[3].head_sha = factories.sha("pushed")
        client.session.flush()
        assert client.state()["unblocked_prs"] == []
        assert client.change(b"unblocked_prs=[3]")["unblocked_prs"] == [3]

    def test_pull_request_must_pass_all_freezes(
        self, client: ClassicClient, web: WatchedBranch, pulls: dict[int, PullRequest]
    ) -> None:
        client.change(b"frozen=true&unblocked_prs=[3]")
        factories.freeze(client.session, client.acme.organization, [web])
        assert client.state()["unblocked_prs"] == []
        assert client.change(b"unblocked_prs=[3]")["unblocked_prs"] == [3]

    @pytest.mark.parametrize("body", [b"frozen=false&unblocked_prs=[3]", b"unblocked_prs=[3,99]"])
    def test_set_is_stored_nowhere_while_nothing_is_frozen(
        self, client: ClassicClient, pulls: dict[int, PullRequest], body: bytes
    ) -> None:
        assert client.change(body)["unblocked_prs"] == []
        assert granted(client.session) == []
        assert client.change(b"frozen=true")["unblocked_prs"] == []

    def test_freeze_without_exceptions_refuses_the_whole_set(
        self, client: ClassicClient, web: WatchedBranch, pulls: dict[int, PullRequest]
    ) -> None:
        factories.freeze(client.session, client.acme.organization, [web], exceptions_allowed=False)
        refused(client.post(b"unblocked_prs=3"), 409, "exceptions_not_permitted")

    def test_pull_request_into_another_branch_is_not_found(
        self, client: ClassicClient, repository: Repository, pulls: dict[int, PullRequest]
    ) -> None:
        factories.branch(client.session, repository, "release/1")
        factories.pull_request(client.session, repository, 9, base_branch="release/1")
        client.change(b"frozen=true")
        refused(client.post(b"unblocked_prs=[9]"), 404, "pull_request_not_found")

    def test_plan_is_needed_to_grant_and_not_to_revoke(
        self, client: ClassicClient, pulls: dict[int, PullRequest]
    ) -> None:
        client.change(b"frozen=true&unblocked_prs=[3]")
        factories.change_plan(client.session, client.acme.organization, "free")
        assert "pr_exceptions" in refused(client.post(b"unblocked_prs=[3,5]"), 403, "feature_not_available")
        assert client.change(b"unblocked_prs=[]")["unblocked_prs"] == []
        assert client.change(b"frozen=false&unblocked_prs=[5]")["frozen"] is False

    def test_set_needs_the_scope_of_exceptions(
        self, client_with: Callable[..., ClassicClient], web: WatchedBranch
    ) -> None:
        client = client_with("freeze:write")
        assert "exception:write" in refused(client.post(b"unblocked_prs=[3]"), 403, "insufficient_scope")

    def test_set_other_than_a_list_of_numbers_is_refused(self, client: ClassicClient, web: WatchedBranch) -> None:
        cases: list[bytes] = [
            b"x",
            b"[3",
            b"3;5",
            b"[[3]]",
            b"0",
            b"-1",
            b"",
            b"[3,]",
            b"2147483648",
            b"1," * 100 + b"1",
            b"null",
        ]
        for sent in cases:
            refused(client.post(b"unblocked_prs=" + sent), 400, "invalid_parameter")
