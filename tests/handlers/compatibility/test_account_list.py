"""The list of an account, and when its branches change next."""

from datetime import timedelta

import pytest

from models.repositories import Repository, WatchedBranch
from services.compatibility import accounts
from tests import factories
from tests.handlers.compatibility.requests import ClassicClient, shown

HOUR = timedelta(hours=1)


def test_list_has_every_watched_branch_of_enabled_repositories(
    client: ClassicClient, repository: Repository, web: WatchedBranch, api: WatchedBranch
) -> None:
    release = factories.branch(client.session, repository, "release/1.2")
    factories.branch(client.session, repository, "old", unwatched_at=factories.now())
    factories.branch(client.session, client.acme.repository("off", enabled=False))
    factories.branch(client.session, factories.repository(client.session, client.acme.organization, "other/web"))
    factories.freeze(client.session, client.acme.organization, [release])
    answer = shown(client.get("/branches/ACME/"))
    assert [(one["name"], one["branch"]) for one in answer["frozen"]] == [("web (release/1.2)", "release/1.2")]
    assert [one["name"] for one in answer["unfrozen"]] == ["api", "web (main)"]
    assert answer["frozen"][0]["url"].endswith("/acme/web/pulls?q=is%3Apr%20is%3Aopen%20base%3Arelease%2F1.2")
    assert answer["unfrozen"][0]["url"].endswith(f"/branches/{api.id}")
    assert answer["truncated"] is False


def test_list_and_branch_agree_on_the_next_changes(
    client: ClassicClient, web: WatchedBranch, api: WatchedBranch
) -> None:
    now = factories.now().replace(microsecond=0)
    schedule = factories.schedule(client.session, client.acme.organization)
    for start, end in ((2, 3), (3, 5), (9, 10)):
        factories.occurrence(client.session, schedule, starts_at=now + start * HOUR, ends_at=now + end * HOUR)
    factories.freeze(client.session, client.acme.organization, [api], ends_at=now + 2 * HOUR)
    expected = {
        "next_freeze_at": int((now + 2 * HOUR).timestamp()),
        "next_unfreeze_at": int((now + 5 * HOUR).timestamp()),
    }
    lists = shown(client.get("/branches/acme"))
    for listed, name in ((lists["frozen"], "api"), (lists["unfrozen"], "web")):
        state = client.state(f"/branches/acme/{name}/main")
        assert {key: state[key] for key in expected} == expected
        assert {key: listed[0][key] for key in expected} == expected


def test_open_ended_freeze_has_no_end(client: ClassicClient, web: WatchedBranch) -> None:
    factories.occurrence(client.session, factories.schedule(client.session, client.acme.organization))
    factories.freeze(client.session, client.acme.organization, [web])
    state = client.state()
    assert state["next_unfreeze_at"] is None
    assert isinstance(state["next_freeze_at"], int)


def test_former_account_is_followed_while_no_repository_has_it(
    client: ClassicClient, repository: Repository, web: WatchedBranch
) -> None:
    repository.owner = "acme-inc"
    client.session.flush()
    assert [one["name"] for one in shown(client.get("/branches/acme"))["unfrozen"]] == ["web"]
    assert client.state()["organization"] == "acme-inc"


def test_long_list_is_truncated(
    client: ClassicClient, web: WatchedBranch, api: WatchedBranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "MAX_BRANCHES", 1)
    answer = shown(client.get("/branches/acme"))
    assert ([one["name"] for one in answer["unfrozen"]], answer["truncated"]) == (["api"], True)
