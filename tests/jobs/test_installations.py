"""An installation's whole life: heard of before or after it is claimed, removed, made again, and at work as before."""

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import requests

from integrations.github import GitHub
from rules.errors import ServiceError
from rules.rulesets.app_permissions import NEEDED
from services.core.unit_of_work import Caller, Dependencies, UnitOfWorkFactory
from services.installations import claims, views
from services.overview.alerts import AlertFilters, list_alerts
from tests.harness.webhook_queue import Post, disagreements, work
from tests.jobs.conftest import ADA, Builder, Town
from tools.fake_github.model.installations import accept_permissions, client_id_of, suspend, uninstall
from tools.fake_github.model.records import Installation
from tools.fake_github.model.world import Actor
from tools.fake_github.oauth import APP_CLIENT_SECRET


@dataclass(slots=True)
class Desk:
    """Ada, who installs and claims, in a town whose post comes when it is told to."""

    town: Town
    post: Post
    uow_factory: UnitOfWorkFactory

    @property
    def caller(self) -> Caller:
        return Caller(self.town.organization.id, ADA, "dashboard", "business", principal_id="usr_ada")

    def install(self) -> dict[str, str]:
        """Install the App in acme; returns what GitHub sends back."""
        with self.uow_factory.open(self.caller) as uow:
            url = claims.install_url(uow)["url"]
        answer = requests.get(f"{url}&account=acme", allow_redirects=False, timeout=10)
        assert answer.status_code == 302, answer.text
        return dict(parse_qsl(urlsplit(answer.headers["location"]).query))

    def claim(self, back: dict[str, str]) -> int:
        with self.uow_factory.open(self.caller) as uow:
            claimed = claims.claim(uow, int(back["installation_id"]), back["state"], back["code"])
        number: int = claimed["installation_id"]
        return number

    def state(self) -> str:
        with self.uow_factory.open(self.caller) as uow:
            return str(views.status(uow, None)["state"])

    def attention(self) -> list[dict[str, Any]]:
        """Return what needs attention."""
        with self.uow_factory.open(self.caller) as uow:
            return list(list_alerts(uow, AlertFilters(), None, 100).data)

    @property
    def installed(self) -> Installation:
        [found] = self.town.host.world.installations.values()
        return found

    @property
    def maintainer(self) -> Actor:
        return Actor(self.town.host.maintainer)

    def uninstall(self) -> None:
        with self.town.host.world.lock:
            uninstall(self.town.host.world, self.maintainer, self.installed)


@pytest.fixture
def desk(town: Town) -> Desk:
    town.host.settings.setup_url = "http://web.test/installed"
    settings = replace(
        town.github.settings,
        app_client_id=client_id_of(town.host.app.id),
        app_client_secret=APP_CLIENT_SECRET,
        web_url=town.base_url,
    )
    dependencies = Dependencies(GitHub(settings), cursor_secret=b"a secret of the tests", web_url="http://web.test")
    uow_factory = UnitOfWorkFactory(
        town.uow_factory.engine, town.uow_factory.clock, town.uow_factory.wakeups, dependencies
    )
    return Desk(town, Post(town), uow_factory)


class TestInstallationWebhook:
    def test_webhook_before_the_claim_is_ignored(self, town: Town, desk: Desk) -> None:
        town.host.organization("acme").repository("web")
        back = desk.install()
        desk.post.run()
        assert town.sql("SELECT id FROM installations") == []
        desk.claim(back)
        work(town)
        assert town.sql("SELECT owner || '/' || name, enabled FROM repositories") == [("acme/web", False)]

    def test_webhook_after_the_claim_changes_nothing(self, town: Town, desk: Desk) -> None:
        town.host.organization("acme").repository("web")
        back = desk.install()
        late = desk.post.take()
        desk.claim(back)
        work(town)
        before = town.sql("SELECT id, state, account, permissions, organization_id FROM installations")
        desk.post.hand_over(late)
        work(town)
        assert town.sql("SELECT id, state, account, permissions, organization_id FROM installations") == before
        assert town.sql("SELECT count(*) FROM repositories") == [(1,)]

    def test_webhook_updates_the_installation_state(self, town: Town, desk: Desk) -> None:
        town.host.organization("acme")
        seen = [desk.state()]
        back = desk.install()
        seen.append(desk.state())
        desk.claim(back)
        seen.append(desk.state())
        for suspended in (True, False):
            with town.host.world.lock:
                suspend(town.host.world, desk.maintainer, desk.installed, suspended=suspended)
            desk.post.run()
            seen.append(desk.state())
        desk.uninstall()
        desk.post.run()
        assert [*seen, desk.state()] == ["none", "pending", "active", "suspended", "active", "removed"]

    def test_webhook_updates_granted_permissions(self, town: Town, desk: Desk) -> None:
        town.host.organization("acme")
        desk.claim(desk.install())
        with town.host.world.lock:
            accept_permissions(town.host.world, desk.maintainer, desk.installed, {"checks": "write"})
        desk.post.run()
        with desk.uow_factory.open(desk.caller) as uow:
            missing = views.status(uow, None)["installation"]["missing_permissions"]
        assert "statuses:write" in missing
        assert "checks:write" not in missing

    def test_missing_permissions_have_an_alert_until_granted(self, town: Town, desk: Desk) -> None:
        town.host.organization("acme")
        desk.claim(desk.install())
        assert desk.attention() == []
        self.grant(town, desk, {"checks": "read"})
        [item] = desk.attention()
        assert (item["type"], item["severity"]) == ("missing_permissions", "critical")
        assert "checks:write" in item["message"]
        self.grant(town, desk, dict(NEEDED))
        assert desk.attention() == []

    def grant(self, town: Town, desk: Desk, permissions: dict[str, str]) -> None:
        with town.host.world.lock:
            accept_permissions(town.host.world, desk.maintainer, desk.installed, permissions)
        desk.post.run()

    def test_removed_installation_has_an_alert_until_claimed_again(self, town: Town, desk: Desk) -> None:
        town.host.organization("acme")
        desk.claim(desk.install())
        desk.uninstall()
        desk.post.run()
        [item] = desk.attention()
        assert item["type"] == "installation_gone"
        desk.claim(desk.install())
        assert desk.attention() == []


def test_claim_is_unavailable_without_the_client_of_the_app(town: Town, desk: Desk) -> None:
    town.host.organization("acme")
    back = desk.install()
    with pytest.raises(ServiceError) as refused, town.uow_factory.open(desk.caller) as uow:
        claims.claim(uow, int(back["installation_id"]), back["state"], back["code"])
    assert refused.value.code == "github_unavailable"
    assert "GITHUB_APP_CLIENT_ID" in refused.value.message


class TestAfterUninstallation:
    @pytest.fixture
    def former(self, town: Town, desk: Desk, build: Builder) -> int:
        """Let the App be uninstalled while everything is frozen."""
        build("api", "web")
        work(town)
        town.freeze()
        work(town)
        number = desk.installed.id
        desk.uninstall()
        desk.post.run()
        return number

    def test_uninstallation_ends_freezes_and_keeps_written_checks(self, town: Town, desk: Desk, former: int) -> None:
        assert town.sql("SELECT end_reason FROM freezes") == [("installation_removed",)]
        assert set(town.conclusions().values()) == {"failure"}
        assert desk.state() == "removed"

    def test_branches_are_evaluated_again_when_the_installation_is_claimed(
        self, town: Town, desk: Desk, former: int
    ) -> None:
        second = desk.claim(desk.install())
        assert second != former
        work(town)
        assert set(town.conclusions().values()) == {"success"}
        assert disagreements(town) == {}
        assert town.sql("SELECT DISTINCT installation_id FROM repositories") == [(second,)]
        town.freeze()
        work(town)
        assert set(town.conclusions().values()) == {"failure"}

    def test_written_rulesets_belong_to_the_new_installation(self, town: Town, desk: Desk, former: int) -> None:
        town.sql(
            "INSERT INTO written_rulesets (level, ruleset_id, organization_id, installation_id, check_name, "
            "written_at) VALUES ('organization', 7, :organization, :former, 'change-freeze/main', now())",
            organization=town.organization.id,
            former=former,
        )
        second = desk.claim(desk.install())
        assert town.sql("SELECT installation_id FROM written_rulesets") == [(second,)]
