"""The reconciler against a GitHub that really refuses and accepts merges."""

from datetime import timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.event import listen, remove

from models.organizations import Organization
from models.repositories import WatchedBranch
from rules.access.permissions import SYSTEM
from services.core.unit_of_work import SYSTEM_CALLER, Caller
from services.github_access.pauses import pause_installation
from services.reconcile.check_writes import write_checks
from services.schedules.skips import skip
from tests import factories
from tests.factories.freezes import FAR_AWAY
from tests.harness.github_harness import Builder, Harness
from tests.harness.people import edit, push_to_head
from tests.jobs.passes import evaluated_pass, leased_pass
from tools.fake_github.model.records import PullRequest

PATTERN = "change-freeze/**"


def share_a_head(harness: Harness, build: Builder) -> tuple[PullRequest, WatchedBranch]:
    """Return a pull request with the head of acme/web#1, and its base: another branch, of one pattern with `main`."""
    pull, *_ = build("web", pulls=1)
    web = harness.fake_github.organization("acme").repository("web")
    web.branch("release/8")
    shared = web.pull_request(base="release/8", sharesHeadWith=pull.number)
    assert shared.head_sha == pull.head_sha
    return shared, harness.watch("release/8", PATTERN, due_at=factories.now())


class TestAFreeze:
    def test_freeze_blocks_every_open_pull_request_until_it_is_lifted(self, harness: Harness, build: Builder) -> None:
        first, _second = build("web")
        harness.run_until_idle()
        assert set(harness.conclusions().values()) == {"success"}
        freeze = harness.freeze()
        harness.run_until_idle()
        assert set(harness.conclusions().values()) == {"failure"}
        refused = harness.merge("acme/web", first.number)
        assert refused.status_code == 405
        assert "change-freeze/main" in refused.json()["message"]
        harness.lift(freeze)
        harness.run_until_idle()
        assert harness.merge("acme/web", first.number).status_code == 200

    def test_check_of_a_freeze_says_why_and_until_when(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=1)
        freeze = harness.freeze()
        harness.run_until_idle()
        check = harness.run_on(harness.record().pulls[1])
        assert check.output["title"] == "Merging into main is frozen until it is lifted"
        assert freeze in check.output["summary"]
        assert "Release 4.2 is being rolled out" in check.output["summary"]

    def test_check_is_frozen_until_the_end_of_a_following_window(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=1)
        organization = harness.session.scalars(select(Organization)).one()
        end = factories.now().replace(second=0, microsecond=0) + timedelta(hours=1)
        branches = list(harness.session.scalars(select(WatchedBranch)))
        factories.freeze(harness.session, organization, branches, ends_at=end)
        factories.occurrence(harness.session, factories.schedule(harness.session, organization), starts_at=end)
        harness.session.commit()
        harness.run_until_idle()
        check = harness.run_on(harness.record().pulls[1])
        until = f"{end + timedelta(hours=1):%Y-%m-%d %H:%M} UTC"
        assert check.output["title"] == f"Merging into main is frozen until {until}"

    def test_check_names_another_end_when_the_following_window_is_skipped(
        self, harness: Harness, build: Builder
    ) -> None:
        build("api", "web", pulls=1)
        organization = harness.session.scalars(select(Organization)).one()
        end = factories.now().replace(second=0, microsecond=0) + timedelta(hours=1)
        web = harness.branches["acme/web"]
        factories.freeze(harness.session, organization, [web], ends_at=end)
        schedule = factories.schedule(harness.session, organization, recurrence=FAR_AWAY)
        window = factories.occurrence(harness.session, schedule, starts_at=end)
        harness.session.commit()
        harness.run_until_idle()
        with harness.jobs.open(Caller(organization.id, SYSTEM, "system")) as uow:
            skip(uow, schedule.id, window.id)
        assert harness.sql("SELECT branch_id FROM checks WHERE due_at IS NOT NULL") == [(web.id,)]
        harness.run_until_idle()
        check = harness.run_on(harness.record().pulls[1])
        assert check.output["title"] == f"Merging into main is frozen until {end:%Y-%m-%d %H:%M} UTC"

    def test_freeze_records_when_it_was_enforced_and_released(self, harness: Harness, build: Builder) -> None:
        build("api", "web")
        harness.read_rules()
        freeze = harness.freeze()
        harness.run_until_idle()
        [[enforced, released]] = harness.sql("SELECT enforced_at IS NOT NULL, released_at IS NOT NULL FROM freezes")
        assert (enforced, released) == (True, False)
        assert harness.sql("SELECT DISTINCT state, heads_total, heads_written FROM freeze_targets") == [
            ("applied", 2, 2)
        ]
        harness.lift(freeze)
        harness.run_until_idle()
        assert harness.sql("SELECT released_at IS NOT NULL FROM freezes") == [(True,)]
        assert harness.sql("SELECT DISTINCT state FROM freeze_targets") == [("released",)]

    def test_lifting_a_freeze_keeps_what_another_one_covers_blocked(self, harness: Harness, build: Builder) -> None:
        build("web")
        first, _second = harness.freeze(), harness.freeze()
        harness.run_until_idle()
        harness.lift(first)
        harness.run_until_idle()
        assert set(harness.conclusions().values()) == {"failure"}
        assert harness.sql("SELECT released_at IS NOT NULL FROM freezes WHERE id = :id", id=first) == [(True,)]

    def test_freeze_of_many_repositories_takes_a_tenth_of_a_call_per_head(
        self, harness: Harness, build: Builder
    ) -> None:
        build(*(f"service-{number}" for number in range(50)), pulls=1)
        harness.run_until_idle()
        harness.fake_github.calls.reset()
        harness.freeze()
        harness.run_until_idle()
        assert set(harness.conclusions().values()) == {"failure"}
        assert harness.fake_github.calls.total <= 5


class TestAtRest:
    def test_pass_over_one_head_takes_few_statements(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=1)
        harness.run_until_idle()
        harness.freeze()
        statements: list[str] = []

        def collect(*event: Any) -> None:
            statements.append(event[2])

        listen(harness.jobs.engine, "before_cursor_execute", collect)
        try:
            assert harness.reconciler.run_pass()
        finally:
            remove(harness.jobs.engine, "before_cursor_execute", collect)
        assert harness.conclusions() == {"acme/web#1": "failure"}
        assert len(statements) <= 60

    def test_nothing_is_written_twice_at_rest(self, harness: Harness, build: Builder) -> None:
        build("web")
        harness.run_until_idle()
        harness.fake_github.calls.reset()
        harness.full_resync()
        harness.run_until_idle()
        assert not harness.fake_github.calls.writes


class TestHeads:
    def test_new_head_gets_a_verdict_and_the_old_one_is_demoted(self, harness: Harness, build: Builder) -> None:
        pull, *_ = build("web", pulls=1)
        harness.run_until_idle()
        old = pull.head_sha
        push_to_head(harness)
        harness.make_due("wanted_generation = nextval('generations')")
        harness.run_until_idle()
        assert harness.conclusions() == {"acme/web#1": "success"}
        written = [(write["headSha"] == old, write["conclusion"]) for write in harness.fake_github.calls.writes]
        assert written == [(True, "success"), (False, "success"), (True, "failure")]

    def test_head_of_two_bases_is_blocked_if_one_without_a_rule_is_frozen(
        self, harness: Harness, build: Builder
    ) -> None:
        _shared, other = share_a_head(harness, build)
        harness.run_until_idle()
        freeze = harness.freeze({"type": "branch", "branchId": other.id})
        harness.run_until_idle()
        assert harness.conclusions(PATTERN)["acme/web#1"] == "failure"
        assert harness.conclusions()["acme/web#1"] == "success"
        harness.lift(freeze)
        harness.run_until_idle()
        assert harness.conclusions(PATTERN)["acme/web#1"] == "success"

    def test_shared_head_is_blocked_when_the_allowing_pull_request_closes(
        self, harness: Harness, build: Builder
    ) -> None:
        """The open base is read, the frozen one is not; the check was written on account of the frozen one."""
        shared, other = share_a_head(harness, build)
        frozen = harness.branches["acme/web"]
        factories.branch_enforcement(harness.session, frozen)
        harness.session.commit()
        harness.freeze({"type": "branch", "branchId": frozen.id})
        harness.run_until_idle()
        harness.sql("UPDATE head_checks SET branch_id = :main WHERE check_name = :name", main=frozen.id, name=PATTERN)
        assert harness.conclusions(PATTERN)["acme/web#1"] == "success"
        edit(harness, shared.number, state="closed")
        harness.sql(
            "UPDATE checks SET due_at = date_trunc('milliseconds', clock_timestamp()), "
            "wanted_generation = nextval('generations') WHERE branch_id = :id",
            id=other.id,
        )
        harness.run_until_idle()
        assert harness.conclusions(PATTERN)["acme/web#1"] == "failure"

    def test_unconfirmed_success_on_a_superseded_head_is_demoted(self, harness: Harness, build: Builder) -> None:
        """The worker dies between sending and recording; meanwhile the pull request is closed."""
        pull, *_ = build("web", pulls=1)
        dying, decisions = evaluated_pass(harness)
        write_checks(dying.state.client, decisions, "http://web.test")
        assert harness.conclusions() == {"acme/web#1": "success"}
        edit(harness, pull.number, state="closed")
        harness.sql("UPDATE checks SET lease_until = clock_timestamp() - interval '1 second'")
        harness.freeze()
        harness.run_until_idle()
        edit(harness, pull.number, state="open")
        assert harness.merge("acme/web", pull.number).status_code == 405


class TestFaults:
    def test_write_with_a_lost_response_is_read_back_and_not_repeated(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=1)
        harness.run_until_idle()
        harness.freeze()
        harness.fake_github.faults.add("disconnect", "createCheckRun", after=True, count=1)
        harness.run_until_idle()
        harness.fake_github.calls.reset()
        harness.make_due()
        harness.run_until_idle()
        assert harness.conclusions() == {"acme/web#1": "failure"}
        assert len(harness.fake_github.calls.writes) <= 1

    def test_running_pass_stops_when_another_worker_pauses_the_installation(
        self, harness: Harness, build: Builder
    ) -> None:
        build("web", pulls=1)
        harness.run_until_idle()
        harness.freeze()
        under_way = leased_pass(harness)
        with harness.jobs.open(SYSTEM_CALLER) as uow:
            pause_installation(uow, under_way.state.batch.installation_id, uow.now + timedelta(seconds=30))
        harness.fake_github.calls.reset()
        under_way.run()
        assert harness.fake_github.calls.total == 0
        [[planned]] = harness.sql("SELECT due_at - clock_timestamp() > '20 seconds' FROM checks")
        assert planned is True
        harness.sql("UPDATE installations SET paused_until = NULL")
        harness.make_due()
        harness.run_until_idle()
        assert harness.conclusions() == {"acme/web#1": "failure"}
