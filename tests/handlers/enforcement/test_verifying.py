"""Having branches probed again, and having a first check written where there is none."""

from sqlalchemy.orm import Session

from models.audit import AuditEntry
from models.pull_requests import HeadCheck
from models.repositories import Repository, WatchedBranch
from rules.ids import new_id
from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.conftest import RecordedWakeups
from tests.handlers.enforcement.asking import EVERYWHERE, details_of
from tests.handlers.guards import takes_credentials


class TestVerifyEnforcement:
    path = "/v1/enforcement/verify"

    def test_it_takes_a_key_that_writes_repositories_or_a_member(self, acme: Tenant, main: WatchedBranch) -> None:
        takes_credentials(
            acme,
            lambda caller: caller.post(self.path, EVERYWHERE),
            scope="repo:write",
            least_role="member",
            writes=True,
        )

    def test_the_branches_of_the_scope_wait_for_a_probe(
        self, acme: Tenant, session: Session, main: WatchedBranch, wakeups: RecordedWakeups
    ) -> None:
        factories.branch_enforcement(session, main)
        factories.branch_enforcement(session, factories.branch(session, acme.repository("api")))
        scope = {"type": "repositories", "repositories": ["acme/web"]}
        answer = acme.key("repo:write").post(self.path, {"scope": scope})
        assert answer.status_code == 202
        assert answer.json()["branchCount"] == 1
        assert answer.json()["requestedAt"].endswith("Z")
        assert "verify" in wakeups.sent
        assert acme.key().get("/v1/enforcement").json()["pending"]["verify"] == 1

    def test_one_that_nobody_has_looked_at_waits_too(self, acme: Tenant, main: WatchedBranch) -> None:
        acme.key().post(self.path, EVERYWHERE)
        assert acme.key().get("/v1/enforcement").json()["pending"]["verify"] == 1

    def test_it_is_audited_once_with_its_scope(self, acme: Tenant, session: Session, main: WatchedBranch) -> None:
        acme.key().post(self.path, EVERYWHERE)
        assert acme.audit() == ["enforcement.verify_requested"]
        details = details_of(session, "enforcement.verify_requested")
        assert details == {"scope": {"type": "organization"}, "branches": 1, "branchIds": [main.id]}
        [entry] = session.query(AuditEntry)
        assert (entry.target["type"], entry.target["name"]) == ("organization", "Acme")

    def test_a_scope_that_reaches_nothing_is_refused(self, acme: Tenant, web: Repository) -> None:
        refusal(acme.key().post(self.path, EVERYWHERE), 422, "no_targets_in_scope")
        assert acme.audit() == []

    def test_a_scope_that_names_what_is_not_there_is_refused(self, acme: Tenant, main: WatchedBranch) -> None:
        for scope, code in (
            ({"type": "branch", "branchId": new_id("wbr")}, "invalid_parameter"),
            ({"type": "repositories", "repositories": ["acme/nothing"]}, "invalid_parameter"),
            ({"type": "glob", "patterns": ["acme/[web]"]}, "invalid_glob"),
        ):
            refusal(acme.key().post(self.path, {"scope": scope}), 422, code)

    def test_without_an_installation_there_is_nobody_to_ask(
        self, acme: Tenant, session: Session, main: WatchedBranch
    ) -> None:
        acme.installation.state = "removed"
        session.flush()
        refusal(acme.key().post(self.path, EVERYWHERE), 410, "installation_removed")

    def test_a_repeat_under_the_same_key_is_one_request(self, acme: Tenant, main: WatchedBranch) -> None:
        key, headers = acme.key(), {"Idempotency-Key": "look-once"}
        first = key.post(self.path, EVERYWHERE, headers=headers)
        second = key.post(self.path, EVERYWHERE, headers=headers)
        assert (second.json(), second.headers["idempotency-replayed"]) == (first.json(), "true")
        assert acme.audit() == ["enforcement.verify_requested"]


class TestSeedCheck:
    path = "/v1/enforcement/seed-check"

    def test_it_is_for_administrators(self, acme: Tenant, main: WatchedBranch) -> None:
        takes_credentials(
            acme, lambda caller: caller.post(self.path, EVERYWHERE), scope=None, least_role="admin", writes=True
        )

    def test_every_head_of_the_scope_will_be_written_anew(
        self, acme: Tenant, session: Session, web: Repository, main: WatchedBranch, wakeups: RecordedWakeups
    ) -> None:
        pull, new = factories.pull_request(session, web, 7), factories.pull_request(session, web, 8)
        judged = factories.head_check(session, main, pull.head_sha, "success", summary_hash="x")
        entry = factories.head_check(session, main, factories.sha("queue entry"), "success", summary_hash="x")
        gone = factories.head_check(session, main, factories.sha("gone"), "failure", summary_hash="x", tracked=False)
        answer = acme.person("admin").post(self.path, EVERYWHERE)
        assert answer.status_code == 202
        assert (answer.json()["branchCount"], answer.json()["headCount"]) == (1, 3)
        session.expire_all()
        assert [row.summary_hash for row in (judged, entry, gone)] == ["", "", "x"]
        assert main.wanted_generation > main.written_generation
        assert main.due_at is not None
        assert "reconcile" in wakeups.sent
        shown = acme.key().get(f"/v1/enforcement/branches/{main.id}").json()["checks"]
        assert (shown["state"], shown["total"], shown["written"]) == ("pending", 3, 0)
        assert new.head_sha not in {row.head_sha for row in session.query(HeadCheck)}

    def test_other_branches_are_left_alone(self, acme: Tenant, session: Session, web: Repository) -> None:
        one, two = (factories.branch(session, web, name) for name in ("release/1", "release/2"))
        checks = [
            factories.head_check(session, each, factories.sha(each.name), "success", summary_hash="x")
            for each in (one, two)
        ]
        scope = {"type": "branch", "repository": "acme/web", "branch": "release/1"}
        assert acme.person("admin").post(self.path, {"scope": scope}).json()["headCount"] == 1
        session.expire_all()
        assert [check.summary_hash for check in checks] == ["", "x"]
        assert (two.wanted_generation, two.due_at) == (0, None)

    def test_it_is_audited_once_with_its_scope(self, acme: Tenant, session: Session, main: WatchedBranch) -> None:
        acme.person("admin").post(self.path, EVERYWHERE)
        assert acme.audit() == ["enforcement.seed_requested"]
        details = details_of(session, "enforcement.seed_requested")
        assert details == {"scope": {"type": "organization"}, "branches": 1, "branchIds": [main.id], "heads": 0}

    def test_a_scope_that_reaches_nothing_is_refused(self, acme: Tenant, web: Repository) -> None:
        refusal(acme.person("admin").post(self.path, EVERYWHERE), 422, "no_targets_in_scope")
        glob = {"scope": {"type": "glob", "patterns": ["acme/[web]"]}}
        refusal(acme.person("admin").post(self.path, glob), 422, "invalid_glob")

    def test_another_organisations_branch_is_nobodys(
        self, acme: Tenant, globex: Tenant, session: Session, main: WatchedBranch
    ) -> None:
        foreign = factories.branch(session, globex.repository("secret"))
        body = {"scope": {"type": "branch", "branchId": foreign.id}}
        refusal(acme.person("admin").post(self.path, body), 422, "invalid_parameter")

    def test_without_an_installation_nothing_can_be_written(
        self, acme: Tenant, session: Session, main: WatchedBranch
    ) -> None:
        acme.installation.state = "removed"
        session.flush()
        refusal(acme.person("admin").post(self.path, EVERYWHERE), 410, "installation_removed")
