"""Freezing and unfreezing: what is started, what is ended, and what stays frozen."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.freezes import Freeze
from models.organizations import Organization
from models.repositories import WatchedBranch
from tests import factories
from tests.handlers.compatibility.requests import ClassicClient, refused, shown
from tests.handlers.freezes.requests import EVERYTHING
from tests.harness.concurrency import at_once

HOUR = timedelta(hours=1)


def freezes(session: Session, *, in_force: bool = True) -> list[Freeze]:
    session.expire_all()
    query = select(Freeze).order_by(Freeze.started_at, Freeze.id)
    return list(session.scalars(query.where(Freeze.ended_at.is_(None)) if in_force else query))


def details(session: Session, action: str) -> list[dict[str, Any]]:
    return [row.details for row in factories.audit_entries(session, action)]


def window(session: Session, organization: Organization, branches: list[WatchedBranch]) -> Freeze:
    """Have a window of a schedule open on these branches."""
    now = factories.now()
    schedule = factories.schedule(session, organization, name="Nights")
    freeze = factories.freeze(
        session, organization, branches, source="schedule", schedule_id=schedule.id, ends_at=now + HOUR
    )
    created_by = {"type": "schedule", "id": schedule.id, "name": schedule.name}
    occurrence = factories.occurrence(
        session, schedule, starts_at=now - HOUR, ends_at=now + HOUR, started_at=now - HOUR, freeze_id=freeze.id
    )
    freeze.occurrence_id, freeze.created_by = occurrence.id, created_by
    session.flush()
    return freeze


class TestFreeze:
    def test_repeated_freeze_starts_one_and_records_the_claim(self, client: ClassicClient, web: WatchedBranch) -> None:
        first = client.change(b"frozen=true&user_name=Ada&note=Release 4.2 is being rolled out")
        assert client.change(b"FROZEN=no&frozen=1&user_name=Eve")["frozen_by"] == "Ada"
        assert (first["frozen_by"], first["note"]) == ("Ada", "Release 4.2 is being rolled out")
        assert (first["allow_deployments"], first["next_unfreeze_at"]) == (False, None)
        [freeze] = freezes(client.session)
        assert (freeze.reason, freeze.ends_at, freeze.exceptions_allowed) == (first["note"], None, True)
        [entry] = factories.audit_entries(client.session, "freeze.started")
        assert (entry.source, entry.actor["type"], entry.details["userName"]) == ("compat", "api_key", "Ada")

    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            (b"&user_name=Ada&note=brief", "Frozen by Ada: brief"),
            (b"&user_name=Ada", "Frozen by Ada"),
            (b"&note=brief", "Frozen through the compatibility API: brief"),
            (b"", "Frozen through the compatibility API"),
            (b"&note=" + b"%00" * 9, "Frozen through the compatibility API"),
            (b"&note=" + b"x" * 3000, "x" * 1000),
        ],
    )
    def test_reason_is_made_of_what_is_sent(
        self, client: ClassicClient, web: WatchedBranch, fields: bytes, reason: str
    ) -> None:
        client.change(b"frozen=true" + fields)
        assert freezes(client.session)[0].reason == reason

    def test_wider_freeze_gets_one_of_the_branch_beside_it(
        self, client: ClassicClient, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        factories.freeze(client.session, client.acme.organization, [web, api])
        client.change(b"frozen=true&user_name=Ada")
        client.change(b"frozen=true&user_name=Ada")
        assert sorted(len(freeze.scope) for freeze in freezes(client.session)) == [1, 2]

    def test_freeze_needs_the_installation_and_unfreeze_does_not(
        self, client: ClassicClient, web: WatchedBranch
    ) -> None:
        client.change(b"frozen=true")
        client.acme.installation.state = "removed"
        client.session.flush()
        refused(client.post(b"frozen=true"), 410, "installation_removed")
        assert client.change(b"frozen=false")["frozen"] is False

    def test_change_without_frozen_changes_nothing(self, client: ClassicClient, web: WatchedBranch) -> None:
        assert client.change(b"")["frozen"] is False
        client.change(b"frozen=true")
        assert client.change(b"user_name=Ada&note=Nothing at all")["frozen"] is True
        assert len(freezes(client.session, in_force=False)) == 1

    def test_freeze_is_shown_with_the_names_of_its_branch(self, client: ClassicClient, web: WatchedBranch) -> None:
        client.change(b"frozen=true&user_name=Ada")
        [freeze] = client.acme.key().get("/v1/freezes").json()["data"]
        assert freeze["scope"] == {"type": "branch", "branchId": web.id, "repository": "acme/web", "branch": "main"}


class TestUnfreeze:
    def test_every_freeze_of_the_branch_alone_ends_also_those_of_others(
        self, client: ClassicClient, web: WatchedBranch
    ) -> None:
        scope = {"type": "branch", "branchId": web.id}
        client.acme.person("owner").post("/v1/freezes", {"scope": scope, "reason": "Begun by a person"})
        factories.freeze(
            client.session,
            client.acme.organization,
            [web],
            scope={"type": "repositories", "repositories": ["acme/web"]},
        )
        assert client.change(b"frozen=FALSE&user_name=Ada&note=All is well now")["frozen"] is False
        assert freezes(client.session) == []
        lifted = details(client.session, "freeze.lifted")
        assert [(one["userName"], one["reason"]) for one in lifted] == [("Ada", "All is well now")] * 2

    def test_running_window_of_the_branch_alone_is_overridden(self, client: ClassicClient, web: WatchedBranch) -> None:
        window(client.session, client.acme.organization, [web]).scope = {"type": "branch", "branchId": web.id}
        client.session.flush()
        assert client.state()["frozen_by"] == "Nights"
        assert client.change(b"frozen=false")["frozen"] is False
        client.session.expire_all()
        assert [freeze.end_reason for freeze in freezes(client.session, in_force=False)] == ["overridden"]

    def test_unfreeze_of_what_is_not_frozen_is_200(self, client: ClassicClient, web: WatchedBranch) -> None:
        assert [client.change(b"frozen=0")["frozen"] for _ in range(2)] == [False, False]

    def test_wider_freeze_remains_and_is_named(
        self, client: ClassicClient, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        wide = factories.freeze(client.session, client.acme.organization, [web, api])
        client.change(b"frozen=true&user_name=Ada")
        after = client.change(b"frozen=false")
        assert after["frozen"] is True
        assert after["still_frozen_by"] == [{"id": wide.id, "reason": wide.reason}]
        assert wide.id in refused(client.post(b"frozen=false"), 409, "invalid_state")
        assert [freeze.id for freeze in freezes(client.session)] == [wide.id]

    def test_window_of_many_branches_remains(
        self, client: ClassicClient, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        wide = window(client.session, client.acme.organization, [web, api])
        assert wide.id in refused(client.post(b"frozen=false"), 409, "invalid_state")

    def test_organization_freeze_of_its_only_branch_is_wider(self, client: ClassicClient, web: WatchedBranch) -> None:
        factories.freeze(client.session, client.acme.organization, [web], scope=EVERYTHING)
        refused(client.post(b"frozen=false"), 409, "invalid_state")


def test_race_of_freezes_and_unfreezes_leaves_at_most_one_freeze(client: ClassicClient, web: WatchedBranch) -> None:
    bodies = [b"frozen=true", b"frozen=true", b"frozen=false", b"frozen=true"]
    answers = at_once(*[lambda body=body: client.post(body) for body in bodies])
    assert [shown(answer)["frozen"] for answer in answers] == [body.endswith(b"true") for body in bodies]
    assert len(freezes(client.session)) <= 1
    assert client.state()["frozen"] is bool(freezes(client.session))
