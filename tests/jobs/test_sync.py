"""The mirror of repositories follows GitHub, for every cause of a sync, and never loses a freeze."""

from dataclasses import dataclass
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from integrations.github import GitHubError
from models.audit import AuditEntry
from models.freezes import FreezeTarget
from models.installations import Installation
from models.repositories import Repository, WatchedBranch
from rules.access.permissions import CODE_HOST
from services.core.lookups import get_repository
from services.core.unit_of_work import GITHUB_CALLER, Caller
from services.core.work_queue import Lease, LeaseLostError
from services.github_access.backoff import RETRY
from services.installations.sync_requests import request_comparison
from services.repositories.enablement import enable
from services.repositories.watches import unwatch
from services.repository_sync import sync as repository_sync
from tests import factories
from tests.factories.plans import change_plan
from tests.harness.github_harness import Harness
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.model import repositories as at_host
from tools.fake_github.model.world import Actor


@dataclass(slots=True)
class Mirror:
    """An installation with what belongs to it on both sides."""

    harness: Harness
    installation: Installation

    def sync(self) -> None:
        repository_sync.sync_installation(self.harness.jobs, self.harness.github, self.acquire())

    def acquire(self) -> Lease:
        """Lease a comparison that is requested now."""
        with self.harness.jobs.open(GITHUB_CALLER) as uow:
            request_comparison(uow, [self.installation.id])
        with self.harness.jobs.open(GITHUB_CALLER) as uow:
            lease = repository_sync.SYNCS.acquire(uow)
        assert lease is not None
        return lease

    def at_host(self, name: str) -> RepositoryBuilder:
        return self.harness.fake_github.organization("acme").repository(name)

    def person(self) -> Actor:
        return Actor(self.harness.fake_github.maintainer)

    def rows(self) -> dict[str, Repository]:
        self.harness.session.rollback()
        self.harness.session.expire_all()
        return {row.full_name: row for row in self.harness.session.scalars(select(Repository))}

    def row(self, full_name: str) -> Repository:
        return self.rows()[full_name]

    def audited(self) -> list[dict[str, int]]:
        self.harness.session.rollback()
        query = select(AuditEntry.details).where(AuditEntry.action == "repository.synced").order_by(AuditEntry.at)
        return list(self.harness.session.scalars(query))

    def enable(self, *names: str, auto_watch: tuple[str, ...] = ()) -> None:
        for name in names:
            self.row(name).auto_watch = list(auto_watch)
            self.harness.session.commit()
        with self.harness.unit() as uow:
            enable(uow, names)

    def watched(self) -> dict[str, bool]:
        """Return, by name, every branch ever watched, and whether it is now."""
        self.harness.session.rollback()
        self.harness.session.expire_all()
        return {row.name: row.unwatched_at is None for row in self.harness.session.scalars(select(WatchedBranch))}

    def targets(self, freeze_id: str) -> int:
        self.harness.session.rollback()
        query = select(func.count()).where(FreezeTarget.freeze_id == freeze_id, FreezeTarget.operation == "apply")
        return self.harness.session.scalar(query) or 0


@pytest.fixture
def mirror(harness: Harness) -> Mirror:
    record = harness.fake_github.organization("acme").installed()
    row = factories.installation(harness.session, harness.organization, "acme", id=record.id)
    harness.session.commit()
    return Mirror(harness, row)


def rename(mirror: Mirror, old: str, new: str) -> None:
    at_host.rename(mirror.harness.fake_github.world, mirror.person(), mirror.at_host(old).record, new)


class TestSync:
    def test_sync_adds_covered_repositories_disabled(self, mirror: Mirror) -> None:
        mirror.at_host("web")
        mirror.at_host("api")
        mirror.sync()
        assert {name: row.enabled for name, row in mirror.rows().items()} == {"acme/api": False, "acme/web": False}

    def test_sync_audits_only_changes(self, mirror: Mirror) -> None:
        mirror.at_host("web")
        mirror.sync()
        mirror.sync()
        rename(mirror, "web", "site")
        mirror.sync()
        mirror.sync()
        assert mirror.audited() == [
            {"covered": 1, "added": 1, "changed": 0, "removed": 0},
            {"covered": 1, "added": 0, "changed": 1, "removed": 0},
        ]

    def test_sync_follows_a_rename_and_keeps_the_former_name(self, mirror: Mirror) -> None:
        mirror.at_host("web")
        mirror.sync()
        before = mirror.row("acme/web").id
        rename(mirror, "web", "site")
        mirror.sync()
        assert mirror.row("acme/site").id == before
        with mirror.harness.unit() as uow:
            assert get_repository(uow, "acme/web").id == before

    def test_ruleset_authorization_outlives_a_rename_but_not_a_transfer(self, mirror: Mirror) -> None:
        mirror.at_host("web")
        mirror.sync()
        row = mirror.row("acme/web")
        row.rulesets_authorized_by, row.rulesets_authorized_at = "root", factories.now()
        mirror.harness.session.commit()
        rename(mirror, "web", "site")
        mirror.sync()
        row = mirror.row("acme/site")
        assert row.rulesets_authorized_by == "root"
        row.owner = "initech"  # which transferred the repository to acme
        mirror.harness.session.commit()
        mirror.sync()
        row = mirror.row("acme/site")
        assert (row.rulesets_authorized_by, row.rulesets_authorized_at) == (None, None)

    def test_sync_updates_archived_state_and_default_branch(self, mirror: Mirror) -> None:
        web = mirror.at_host("web").branch("trunk")
        mirror.sync()
        world = mirror.harness.fake_github.world
        at_host.set_default_branch(world, mirror.person(), web.record, "trunk")
        at_host.set_archived(world, mirror.person(), web.record, archived=True)
        mirror.sync()
        row = mirror.row("acme/web")
        assert (row.archived, row.default_branch) == (True, "trunk")

    def test_uncovered_repository_stays_frozen_and_returns_with_the_same_id(self, mirror: Mirror) -> None:
        mirror.at_host("web")
        mirror.at_host("api")
        mirror.sync()
        mirror.enable("acme/web")
        freeze = mirror.harness.freeze()
        before = mirror.row("acme/web").id
        record = mirror.harness.fake_github.world.installations[mirror.installation.id]
        record.repository_selection, record.repository_ids = "selected", [mirror.at_host("api").record.id]
        mirror.sync()
        gone = mirror.row("acme/web")
        assert gone.removed_at is not None
        assert gone.enabled
        assert mirror.targets(freeze) == 1
        record.repository_selection = "all"
        mirror.sync()
        back = mirror.row("acme/web")
        assert (back.id, back.removed_at) == (before, None)

    def test_renamed_repository_joins_a_matching_freeze_and_never_leaves(self, mirror: Mirror) -> None:
        mirror.at_host("web")
        mirror.at_host("prod-api")
        mirror.sync()
        mirror.enable("acme/web", "acme/prod-api")
        freeze = mirror.harness.freeze({"type": "glob", "patterns": ["acme/prod-*"]})
        assert mirror.targets(freeze) == 1
        rename(mirror, "web", "prod-web")
        rename(mirror, "prod-api", "api")
        mirror.sync()
        mirror.sync()
        assert mirror.targets(freeze) == 2
        grown = [action for action in _actions(mirror) if action == "freeze.grew"]
        assert grown == ["freeze.grew"]

    def test_slow_sync_does_not_overwrite_a_later_sync(self, mirror: Mirror) -> None:
        mirror.at_host("web")
        slow = mirror.acquire()
        mirror.harness.jobs.clock.offset += repository_sync.SYNCS.lease  # type: ignore[attr-defined]
        mirror.sync()
        caller = Caller(mirror.harness.organization.id, CODE_HOST, "code_host")
        with mirror.harness.jobs.open(caller) as uow, pytest.raises(LeaseLostError):
            repository_sync._compare(uow, slow, [])
        assert mirror.row("acme/web").removed_at is None

    def test_sync_records_a_removed_installation(self, mirror: Mirror) -> None:
        mirror.harness.fake_github.world.installations.pop(mirror.installation.id)
        mirror.sync()
        mirror.harness.session.refresh(mirror.installation)
        assert mirror.installation.state == "removed"

    def test_unclaimed_installation_is_not_synced(self, mirror: Mirror) -> None:
        mirror.at_host("web")
        mirror.installation.organization_id = None
        mirror.harness.session.commit()
        with mirror.harness.jobs.open(GITHUB_CALLER) as uow:
            request_comparison(uow, [mirror.installation.id])
        assert not repository_sync.sync_due(mirror.harness.jobs, mirror.harness.github)
        assert mirror.rows() == {}


def _actions(mirror: Mirror) -> list[str]:
    return factories.audit_actions(mirror.harness.session, mirror.harness.organization)


class TestRequests:
    def ask(self, mirror: Mirror) -> None:
        with mirror.harness.unit() as uow:
            repository_sync.request_sync(uow)

    def pending(self, mirror: Mirror) -> bool:
        return repository_sync.sync_due(mirror.harness.jobs, mirror.harness.github)

    def test_requested_sync_runs_once(self, mirror: Mirror) -> None:
        mirror.at_host("web")
        assert not self.pending(mirror)
        self.ask(mirror)
        assert self.pending(mirror)
        assert not self.pending(mirror)
        assert set(mirror.rows()) == {"acme/web"}
        mirror.harness.session.refresh(mirror.installation)
        assert mirror.installation.synced_at is not None

    def test_failed_sync_is_retried_later(self, mirror: Mirror) -> None:
        mirror.at_host("web")
        self.ask(mirror)
        mirror.harness.fake_github.faults.add("error", "/installation/repositories", status=502)
        assert self.pending(mirror)
        assert not self.pending(mirror)
        mirror.harness.fake_github.faults.clear()
        mirror.harness.jobs.clock.offset = RETRY.longest  # type: ignore[attr-defined]
        assert self.pending(mirror)
        assert set(mirror.rows()) == {"acme/web"}

    def test_rate_limited_sync_pauses_the_installation_and_waits(self, mirror: Mirror) -> None:
        mirror.at_host("web")
        self.ask(mirror)
        reply = {"message": "You have exceeded a secondary rate limit.", "headers": {"retry-after": "30"}}
        mirror.harness.fake_github.faults.add("error", "/installation/repositories", status=403, count=1, **reply)
        assert self.pending(mirror)
        [[pause]] = mirror.harness.sql("SELECT paused_until - clock_timestamp() FROM installations")
        assert timedelta(seconds=20) < pause <= timedelta(seconds=30)
        mirror.harness.sql("UPDATE repository_syncs SET due_at = requested_at")
        assert not self.pending(mirror)
        mirror.harness.sql("UPDATE installations SET paused_until = NULL")
        assert self.pending(mirror)

    def test_sync_requested_during_another_runs_afterwards(self, mirror: Mirror) -> None:
        self.ask(mirror)
        with mirror.harness.jobs.open(GITHUB_CALLER) as uow:
            lease = repository_sync.SYNCS.acquire(uow)
        assert lease is not None
        assert not self.pending(mirror)
        with mirror.harness.unit() as uow:
            request_comparison(uow, [mirror.installation.id])
        with mirror.harness.jobs.open(GITHUB_CALLER) as uow:
            lease.release(uow)
        assert self.pending(mirror)
        assert not self.pending(mirror)


class TestAutoWatch:
    def test_sync_watches_matching_branches_except_unwatched(self, mirror: Mirror) -> None:
        web = mirror.at_host("web").branch("release/1").branch("release/2").branch("feature")
        mirror.sync()
        mirror.enable("acme/web", auto_watch=("release/*",))
        branch = mirror.harness.session.scalars(select(WatchedBranch).where(WatchedBranch.name == "release/2")).one()
        with mirror.harness.unit() as uow:
            unwatch(uow, branch.id)
        web.branch("release/3")
        mirror.sync()
        assert mirror.watched() == {"main": True, "release/1": True, "release/2": False, "release/3": True}

    def outgrow_the_free_plan(self, mirror: Mirror) -> None:
        """Mirror more branches of a pattern than the free plan lets an organisation watch."""
        web = mirror.at_host("web")
        mirror.sync()
        change_plan(mirror.harness.session, mirror.harness.organization, "free")
        mirror.harness.session.commit()
        mirror.enable("acme/web", auto_watch=("release/*",))
        for number in range(25):
            web.branch(f"release/{number}")
        mirror.sync()

    def test_branch_beyond_the_plan_is_not_watched_and_gets_success(self, mirror: Mirror) -> None:
        self.outgrow_the_free_plan(mirror)
        mirror.sync()
        assert mirror.watched() == {"main": True} | {f"release/{number}": False for number in range(25)}

    def test_branch_beyond_the_plan_is_watched_when_the_plan_allows(self, mirror: Mirror) -> None:
        self.outgrow_the_free_plan(mirror)
        change_plan(mirror.harness.session, mirror.harness.organization, "business")
        mirror.harness.session.commit()
        mirror.sync()
        assert all(mirror.watched().values())


class TestRefresh:
    def refresh(self, mirror: Mirror, github_id: int) -> None:
        repository_sync.refresh_repository(mirror.harness.jobs, mirror.harness.github, github_id)

    def test_refresh_hides_a_transferred_repository(self, mirror: Mirror) -> None:
        web = mirror.at_host("web")
        web.record.private = False
        mirror.sync()
        world = mirror.harness.fake_github.world
        at_host.transfer(world, mirror.person(), web.record, world.add_account("globex", "Organization"))
        self.refresh(mirror, web.record.id)
        assert mirror.row("acme/web").removed_at is not None

    def test_refresh_changes_nothing_when_github_is_down(self, mirror: Mirror) -> None:
        web = mirror.at_host("web")
        mirror.sync()
        mirror.harness.fake_github.faults.add("error", "GET /repos/acme/web", status=502)
        with pytest.raises(GitHubError):
            self.refresh(mirror, web.record.id)
        assert mirror.row("acme/web").removed_at is None
