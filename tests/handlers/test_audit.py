"""Operations of the tag Audit."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest

from app.database import WORKER_ROLE
from models.audit import AuditEntry
from rules.audit.actions import ACTIONS
from rules.time.instants import format_instant
from services.audit.hash_chain import LATE, seal_entries
from services.core.clock import DatabaseClock
from services.core.unit_of_work import UnitOfWorkFactory
from tests import factories
from tests.factories.plans import change_plan
from tests.handlers.callers import Caller, Tenant, answered, refusal
from tests.handlers.people import through_pages
from tests.harness.engines import engine_of
from tests.harness.wakeups import RecordedWakeups

PATH = "/v1/audit"
ADA = {"type": "user", "id": "usr_ada", "name": "Ada"}
Seal = Callable[[], int]


def entry(tenant: Tenant, ago: timedelta = timedelta(), **columns: Any) -> str:
    """Write an entry that was made some time ago, and return its id."""
    given = {"at": factories.now() - ago, "actor": ADA, "source": "dashboard"}
    return factories.audit_entry(tenant.session, tenant.organization, **given | columns).id


def listed(caller: Caller, **params: Any) -> list[str]:
    """Return the ids of a page."""
    return [row["id"] for row in answered(caller.get(PATH, **params))["data"]]


def paged(caller: Caller, **params: Any) -> list[str]:
    """Return the ids of all pages."""
    return [str(row["id"]) for row in through_pages(caller, PATH, **params)]


@pytest.fixture
def seal(database: str) -> Seal:
    """Have the sealer look."""
    uow_factory = UnitOfWorkFactory(engine_of(database, WORKER_ROLE), DatabaseClock(), RecordedWakeups())
    return lambda: seal_entries(uow_factory)


class TestListAuditEntries:
    def test_audit_entry_names_actor_action_time_and_source(self, acme: Tenant) -> None:
        changed = acme.person("admin").patch("/v1/orgs/current", {"name": "Acme International"})
        assert changed.status_code == 200, changed.text
        [row] = acme.person("viewer").get(PATH).json()["data"]
        assert row == {
            "id": row["id"],
            "at": row["at"],
            "action": "organization.updated",
            "actor": row["actor"],
            "source": "dashboard",
            "target": {"type": "organization", "id": acme.id, "name": row["target"]["name"]},
            "requestId": changed.headers["X-Request-Id"],
            "details": {"before": {"name": acme.organization.name}, "after": {"name": "Acme International"}},
            "seal": None,
        }
        assert row["actor"]["type"] == "user"

    def test_list_audit_entries_returns_the_newest_first_page_by_page(self, acme: Tenant) -> None:
        made = [entry(acme, timedelta(minutes=minutes)) for minutes in range(5)]
        assert paged(acme.key("audit:read"), limit=2) == made

    def test_audit_entry_is_visible_at_commit_and_sealed_later(self, acme: Tenant, seal: Seal) -> None:
        made = entry(acme)
        assert acme.key().get(PATH).json()["data"][0]["seal"] is None
        seal()
        [row] = acme.key().get(PATH).json()["data"]
        assert (row["id"], row["seal"]["sequence"], len(row["seal"]["hash"])) == (made, 1, 64)

    @pytest.mark.parametrize(
        ("name", "value", "columns"),
        [
            ("action", "freeze.lifted", {"action": "freeze.lifted"}),
            ("action", "freeze.overridden,freeze.lifted", {"action": "freeze.lifted"}),
            ("actorId", "key_1", {"actor": {"type": "api_key", "id": "key_1", "name": "CI"}}),
            ("targetId", "frz_2", {"target": {"type": "freeze", "id": "frz_2", "name": "x"}}),
            ("source", "schedule", {"source": "schedule"}),
        ],
    )
    def test_list_audit_entries_applies_each_filter(
        self, acme: Tenant, seal: Seal, name: str, value: str, columns: dict[str, Any]
    ) -> None:
        entry(acme)
        wanted = entry(acme, **columns)
        entry(acme)
        seal()
        for order in ("asc", "desc"):
            assert listed(acme.key(), order=order, **{name: value}) == [wanted]

    def test_audit_entries_are_found_by_names_of_actor_and_target(self, acme: Tenant) -> None:
        by_name = entry(acme, actor={"type": "user", "id": "usr_1", "name": "Ada Lovelace"})
        of_name = entry(acme, target={"type": "repository", "id": "rep_1", "name": "acme/100%_web"}, source="api")
        entry(acme)
        assert listed(acme.key(), q="LOVELACE") == [by_name]
        assert listed(acme.key(), q="100%_w") == [of_name]
        assert listed(acme.key(), q="acme/100", source="dashboard") == []
        refusal(acme.key().get(PATH, q="ada", order="asc"), 400, "invalid_parameter")

    @pytest.mark.parametrize("order", ["asc", "desc"])
    def test_list_audit_entries_combines_its_filters(self, acme: Tenant, seal: Seal, order: str) -> None:
        wanted = entry(acme, source="api", action="freeze.lifted")
        entry(acme, source="api")
        entry(acme, action="freeze.lifted")
        seal()
        assert listed(acme.key(), source="api", action="freeze.lifted", order=order) == [wanted]

    @pytest.mark.parametrize("order", ["asc", "desc"])
    def test_audit_range_includes_from_and_excludes_to(self, acme: Tenant, seal: Seal, order: str) -> None:
        now = factories.now().replace(microsecond=0)
        early, first, last, after = (entry(acme, at=now - timedelta(minutes=minutes)) for minutes in (9, 8, 7, 6))
        seal()
        since, until = (format_instant(now - timedelta(minutes=minutes)) for minutes in (8, 6))
        between = listed(acme.key(), **{"from": since, "to": until, "order": order})
        assert sorted(between) == sorted([first, last])
        assert early not in listed(acme.key(), **{"from": since, "order": order})
        assert after not in listed(acme.key(), to=until, order=order)

    @pytest.mark.parametrize("order", ["asc", "desc"])
    @pytest.mark.parametrize(("plan", "days"), [("free", 7), ("team", 90), ("business", 365)])
    def test_audit_visibility_follows_the_plan_and_deletes_nothing(
        self, acme: Tenant, seal: Seal, order: str, plan: str, days: int
    ) -> None:
        within = entry(acme, timedelta(days=days) - timedelta(minutes=1))
        beyond = entry(acme, timedelta(days=days) + timedelta(minutes=1))
        seal()
        change_plan(acme.session, acme.organization, plan)
        acme.session.flush()
        long_ago = {"from": "2020-01-01T00:00:00Z"}
        assert listed(acme.key(), order=order) == listed(acme.key(), order=order, **long_ago) == [within]
        assert acme.session.get(AuditEntry, beyond) is not None

    def test_upgrade_of_the_plan_shows_older_audit_entries_at_once(self, globex: Tenant) -> None:
        old = entry(globex, timedelta(days=30))
        assert listed(globex.key()) == []
        change_plan(globex.session, globex.organization, "team")
        globex.session.flush()
        assert listed(globex.key()) == [old]

    def test_list_audit_entries_rejects_an_unknown_action(self, acme: Tenant) -> None:
        for action in ("freeze.begun", "freeze.started,freeze.begun"):
            error = refusal(acme.key().get(PATH, action=action), 400, "invalid_parameter")
            assert error["details"][0]["path"] == "action"
            assert error["message"] == "'freeze.begun' is not a known action; GET /v1/audit/actions lists them."

    @pytest.mark.parametrize("order", ["asc", "desc"])
    def test_list_audit_entries_pages_through_several_actions(self, acme: Tenant, seal: Seal, order: str) -> None:
        actions = ("freeze.lifted", "freeze.overridden", "freeze.started", "freeze.lifted")
        made = [entry(acme, timedelta(minutes=number), action=action) for number, action in enumerate(actions)]
        seal()
        found = paged(acme.key(), action="freeze.lifted,freeze.overridden", order=order, limit=1)
        assert sorted(found) == sorted([made[0], made[1], made[3]])

    @pytest.mark.parametrize("order", ["asc", "desc"])
    def test_audit_range_may_end_at_the_latest_possible_time(self, acme: Tenant, seal: Seal, order: str) -> None:
        made = entry(acme)
        seal()
        assert made in paged(acme.key(), order=order, to="9999-12-31T23:59:59.999Z")


class TestFollowAuditLog:
    def test_followed_audit_entries_are_ordered_by_seal(self, acme: Tenant, seal: Seal) -> None:
        second = entry(acme)
        seal()
        late = entry(acme, timedelta(minutes=5))
        seal()
        assert paged(acme.key(), order="asc", limit=1) == [second, late]

    def test_hash_chain_can_be_computed_from_the_followed_entries(self, acme: Tenant, seal: Seal) -> None:
        acme.person("admin").patch("/v1/orgs/current", {"name": "Ägypten & Söhne"})
        entry(acme, details={"before": None, "after": {"reason": 'A "quoted" reason\n\u2028 in two lines'}})
        seal()
        rows = acme.key().get(PATH, order="asc").json()["data"]
        assert len(rows) == 2
        before = bytes(32)
        for row in rows:
            at = datetime.fromisoformat(row["at"]).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            sealed = {name: value for name, value in row.items() if name != "seal"}
            sealed |= {"organizationId": acme.id, "at": at}
            text = json.dumps(sealed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            before = sha256(before + text.encode()).digest()
            assert row["seal"]["hash"] == before.hex()

    def test_followed_audit_entries_exclude_unsealed_entries(self, acme: Tenant, seal: Seal) -> None:
        sealed = entry(acme)
        seal()
        entry(acme)
        assert listed(acme.key(), order="asc") == [sealed]

    def test_follow_cursor_of_the_last_page_continues_with_new_entries(self, acme: Tenant, seal: Seal) -> None:
        first = entry(acme)
        seal()
        page = acme.key().get(PATH, order="asc").json()
        assert ([row["id"] for row in page["data"]], page["nextCursor"]) == ([first], None)
        again = acme.key().get(PATH, order="asc", cursor=page["followCursor"]).json()
        assert (again["data"], again["followCursor"]) == ([], page["followCursor"])
        second = entry(acme, timedelta(hours=2))
        seal()
        assert listed(acme.key(), order="asc", cursor=page["followCursor"]) == [second]

    def test_audit_log_can_be_followed_while_empty(self, acme: Tenant, seal: Seal) -> None:
        page = acme.key().get(PATH, order="asc").json()
        first = entry(acme)
        seal()
        assert listed(acme.key(), order="asc", cursor=page["followCursor"]) == [first]

    def test_audit_log_in_descending_order_has_no_follow_cursor(self, acme: Tenant) -> None:
        entry(acme)
        assert acme.key().get(PATH).json()["followCursor"] is None

    def test_audit_range_includes_entries_sealed_long_after_the_range(self, acme: Tenant, seal: Seal) -> None:
        old = factories.now() - LATE - timedelta(hours=5)
        in_range, beside = entry(acme, at=old), entry(acme, at=old + timedelta(hours=1))
        seal()
        until = format_instant(old + timedelta(minutes=1))
        assert listed(acme.key(), to=until, order="asc") == [in_range]
        assert beside in listed(acme.key(), order="asc")


class TestListAuditActions:
    def test_list_audit_actions_describes_every_action(self, acme: Tenant) -> None:
        rows = through_pages(acme.key(), f"{PATH}/actions", limit=30)
        found = {row["action"]: row["meaning"] for row in rows}
        assert found == ACTIONS
        assert list(found) == sorted(found)
