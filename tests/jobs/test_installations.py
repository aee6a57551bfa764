"""An installation's whole life: reported before or after it is claimed, removed, made again, and at work as before."""

import pytest

from rules.errors import ServiceError
from rules.rulesets.app_permissions import NEEDED
from services.installations import claims
from tests.harness.desk import Desk
from tests.harness.github_harness import Builder, Harness
from tests.harness.people import suspend, uninstall
from tests.harness.webhook_queue import disagreements, work
from tools.fake_github.model.installations import accept_permissions


@pytest.fixture
def desk(harness: Harness) -> Desk:
    return Desk.of(harness)


class TestInstallationWebhook:
    def test_webhook_before_the_claim_is_ignored(self, harness: Harness, desk: Desk) -> None:
        harness.fake_github.organization("acme").repository("web")
        back = desk.install()
        desk.webhook_queue.run()
        assert harness.sql("SELECT id FROM installations") == []
        desk.claim(back)
        work(harness)
        assert harness.sql("SELECT owner || '/' || name, enabled FROM repositories") == [("acme/web", False)]

    def test_webhook_after_the_claim_changes_nothing(self, harness: Harness, desk: Desk) -> None:
        harness.fake_github.organization("acme").repository("web")
        back = desk.install()
        late = desk.webhook_queue.take()
        desk.claim(back)
        work(harness)
        before = harness.sql("SELECT id, state, account, permissions, organization_id FROM installations")
        desk.webhook_queue.deliver(late)
        work(harness)
        assert harness.sql("SELECT id, state, account, permissions, organization_id FROM installations") == before
        assert harness.sql("SELECT count(*) FROM repositories") == [(1,)]

    def test_webhook_updates_the_installation_state(self, harness: Harness, desk: Desk) -> None:
        harness.fake_github.organization("acme")
        seen = [desk.state()]
        back = desk.install()
        seen.append(desk.state())
        desk.claim(back)
        seen.append(desk.state())
        for suspended in (True, False):
            suspend(harness, suspended=suspended)
            desk.webhook_queue.run()
            seen.append(desk.state())
        uninstall(harness)
        desk.webhook_queue.run()
        assert [*seen, desk.state()] == ["none", "pending", "active", "suspended", "active", "removed"]

    def test_missing_permissions_have_an_alert_until_granted(self, harness: Harness, desk: Desk) -> None:
        harness.fake_github.organization("acme")
        desk.claim(desk.install())
        assert desk.attention() == []
        self.grant(harness, desk, {"checks": "read"})
        [item] = desk.attention()
        assert (item["type"], item["severity"]) == ("missing_permissions", "critical")
        assert "checks:write" in item["message"]
        self.grant(harness, desk, dict(NEEDED))
        assert desk.attention() == []

    def grant(self, harness: Harness, desk: Desk, permissions: dict[str, str]) -> None:
        harness.act(accept_permissions, harness.installed, permissions)
        desk.webhook_queue.run()

    def test_removed_installation_has_an_alert_until_claimed_again(self, harness: Harness, desk: Desk) -> None:
        harness.fake_github.organization("acme")
        desk.claim(desk.install())
        uninstall(harness)
        desk.webhook_queue.run()
        [item] = desk.attention()
        assert item["type"] == "installation_gone"
        desk.claim(desk.install())
        assert desk.attention() == []


def test_claim_is_unavailable_without_the_client_of_the_app(harness: Harness, desk: Desk) -> None:
    harness.fake_github.organization("acme")
    back = desk.install()
    with pytest.raises(ServiceError) as refused, harness.uow_factory.open(desk.caller) as uow:
        claims.claim(uow, int(back["installation_id"]), back["state"], back["code"])
    assert refused.value.code == "github_unavailable"
    assert "GITHUB_APP_CLIENT_ID" in refused.value.message


class TestAfterUninstallation:
    @pytest.fixture
    def former(self, harness: Harness, desk: Desk, build: Builder) -> int:
        """Let the App be uninstalled while everything is frozen."""
        build("api", "web")
        work(harness)
        harness.freeze()
        work(harness)
        number = uninstall(harness)
        desk.webhook_queue.run()
        return number

    def test_branches_are_evaluated_again_when_the_installation_is_claimed(
        self, harness: Harness, desk: Desk, former: int
    ) -> None:
        second = desk.claim(desk.install())
        assert second != former
        work(harness)
        assert set(harness.conclusions().values()) == {"success"}
        assert disagreements(harness) == {}
        assert harness.sql("SELECT DISTINCT installation_id FROM repositories") == [(second,)]
        harness.freeze()
        work(harness)
        assert set(harness.conclusions().values()) == {"failure"}

    def test_written_rulesets_belong_to_the_new_installation(self, harness: Harness, desk: Desk, former: int) -> None:
        harness.sql(
            "INSERT INTO written_rulesets (level, ruleset_id, organization_id, installation_id, check_name, "
            "written_at) VALUES ('organization', 7, :organization, :former, 'change-freeze/main', now())",
            organization=harness.organization.id,
            former=former,
        )
        second = desk.claim(desk.install())
        assert harness.sql("SELECT installation_id FROM written_rulesets") == [(second,)]
