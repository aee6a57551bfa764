"""An administrator lets the service write rulesets, once: the whole way, and every attack on it."""

import json
import logging
from datetime import timedelta
from urllib.parse import parse_qsl, urlsplit

import pytest

from models.repositories import Repository
from rules.errors import ServiceError
from services.core.unit_of_work import Caller
from services.enforcement.setup_plans import set_up
from tests import factories
from tests.factories.plans import BUSINESS
from tests.harness.github_harness import ADA, Harness
from tests.jobs.setup.requests import ask, audit, names, permit, state, work
from tests.web.conftest import WEB, Asked, form_of
from tests.web.test_pages import Page

OURS = ["Change freeze: main"]


def right(harness: Harness, login: str, **rights: str) -> None:
    named = {place.replace("__", "/"): level for place, level in rights.items()}
    harness.fake_github.oauth.rights[login] = named


def refusal_of(asked: Asked) -> ServiceError:
    """Apply everywhere, and return the error."""
    caller = Caller(asked.harness.organization.id, ADA, "dashboard", BUSINESS)
    with asked.uow_factory.open(caller) as uow, pytest.raises(ServiceError) as refused:
        set_up(uow, {"type": "organization"}, "apply")
    return refused.value


class TestAuthorizationPage:
    def test_authorization_url_uses_pkce_and_a_state_of_at_least_128_bits(self, asked: Asked) -> None:
        parts = urlsplit(asked.authorization_url)
        query = dict(parse_qsl(parts.query))
        assert f"{parts.scheme}://{parts.netloc}{parts.path}" == asked.harness.base_url + "/login/oauth/authorize"
        assert query["redirect_uri"] == WEB + "/enforcement/authorized"
        assert (query["code_challenge_method"], len(query["code_challenge"])) == ("S256", 43)
        assert len(query["state"].partition(".")[2]) * 6 >= 128

    def test_authorization_page_names_the_requester_and_the_rulesets(self, asked: Asked) -> None:
        text = " ".join(Page(asked.look(asked.go()).text).text.split())
        for shown in ("Ada", "Acme", "2 rulesets", "Change freeze: main", "acme/web", "acme/api"):
            assert shown in text
        assert names(asked.harness.fake_github) == {}

    def test_confirmed_rulesets_are_written_recorded_and_audited(self, asked: Asked) -> None:
        right(asked.harness, "root", acme__web="admin", acme__api="admin")
        page = asked.do()
        assert page.status_code == 200
        assert "<h1>Done</h1>" in page.text
        assert names(asked.harness.fake_github) == {"web": OURS, "api": OURS}
        assert state(asked.harness) == ("done", 2, None)
        assert asked.harness.sql("SELECT count(*) FROM written_rulesets")[0][0] == 2
        assert sorted(audit(asked.harness)) == [
            "enforcement.authorization_requested",
            "enforcement.authorized",
            "ruleset.created",
            "ruleset.created",
        ]
        rows = asked.harness.sql("SELECT actor, details FROM audit_entries WHERE action = 'ruleset.created'")
        assert {(actor["name"], details["authorizedBy"]) for actor, details in rows} == {("Ada", "root")}

    def test_github_token_is_revoked_after_use(self, asked: Asked) -> None:
        asked.do()
        people = asked.harness.fake_github.oauth
        assert any(issued.startswith("ghu_") for issued in people.issued)
        assert people.tokens == set()

    def test_github_token_is_revoked_when_github_fails(self, asked: Asked) -> None:
        fault = asked.harness.fake_github.faults.add("error", "GET /user", status=502)
        assert asked.do().status_code == 502
        asked.harness.fake_github.faults.clear(fault.id)
        assert asked.harness.fake_github.oauth.tokens == set()

    def test_unwritten_rulesets_can_be_authorized_again(self, asked: Asked) -> None:
        fault = asked.harness.fake_github.faults.add("error", "POST /repos/acme/api/rulesets", status=502)
        fault_of_web = asked.harness.fake_github.faults.add("error", "POST /repos/acme/web/rulesets", status=502)
        page = asked.do()
        assert "<h1>Partly done</h1>" in page.text
        for each in (fault, fault_of_web):
            asked.harness.fake_github.faults.clear(each.id)
        [again] = [link for link in Page(page.text).links if "/login/oauth/authorize" in link]
        assert "<h1>Done</h1>" in asked.do(url=again).text
        assert names(asked.harness.fake_github) == {"web": OURS, "api": OURS}
        assert audit(asked.harness).count("ruleset.created") == 2

    def test_paused_installation_makes_no_calls_and_keeps_the_address_valid(self, asked: Asked) -> None:
        form = form_of(asked.look(asked.go()))
        asked.harness.sql("UPDATE installations SET paused_until = clock_timestamp() + interval '5 minutes'")
        asked.harness.fake_github.calls.reset()
        assert "asked this installation to wait" in asked.look(asked.go()).text
        assert "asked this installation to wait" in asked.confirm(form).text
        assert not [each for each in asked.harness.fake_github.calls.by_caller if each.startswith("installation")]
        asked.harness.sql("UPDATE installations SET paused_until = NULL")
        assert "<h1>Done</h1>" in asked.confirm(form).text

    def test_organization_ruleset_requires_an_owner_of_the_organization(self, asked: Asked) -> None:
        web = asked.harness.branches["acme/web:main"].repository_id
        factories.branch(asked.harness.session, asked.harness.session.get_one(Repository, web), "next")
        asked.harness.session.commit()
        permit(asked.harness, organization_administration="write")  # and not for the ruleset of the branch next
        right(asked.harness, "root", acme__web="admin", acme__api="admin")
        assert "not an administrator of the organisation acme" in asked.do().text
        assert names(asked.harness.fake_github) == {}

    def test_authorized_rulesets_are_written_by_the_app_which_may_write_them(self, asked: Asked) -> None:
        permit(asked.harness, administration="write")
        right(asked.harness, "root", acme__web="admin", acme__api="admin")
        url = asked.ask_again()
        assert "scope=repo&" in url + "&"
        page = asked.do(url=url)
        assert "<h1>Authorised</h1>" in page.text
        assert "2 rulesets" in " ".join(page.text.split())
        assert names(asked.harness.fake_github) == {}
        work(asked.harness)
        assert names(asked.harness.fake_github) == {"web": OURS, "api": OURS}
        assert state(asked.harness) == ("done", 2, None)
        recorded = asked.harness.sql("SELECT rulesets_authorized_by, rulesets_authorized_at FROM repositories")
        assert [login for login, _ in recorded] == ["root", "root"]
        assert all(at is not None for _, at in recorded)
        [details] = asked.harness.sql("SELECT details FROM audit_entries WHERE action = 'enforcement.authorized'")
        assert (details[0]["authorizedBy"], details[0]["repositories"]) == ("root", ["acme/api", "acme/web"])
        assert ask(asked.harness)["state"] == "applied"  # without another authorisation

    def test_authorization_is_required_once_for_each_repository(self, asked: Asked) -> None:
        permit(asked.harness, administration="write")
        right(asked.harness, "root", acme__web="admin")
        web = {"type": "repositories", "repositories": ["acme/web"]}
        assert "<h1>Authorised</h1>" in asked.do(url=asked.ask_again(web)).text
        assert names(asked.harness.fake_github) == {}
        refused = refusal_of(asked)
        assert "acme/api" in refused.message
        assert "acme/web" not in refused.message

    def test_unauthorized_repository_is_left_out_by_the_job(self, asked: Asked) -> None:
        permit(asked.harness, administration="write")
        assert "<h1>Authorised</h1>" in asked.do(url=asked.ask_again()).text
        asked.harness.sql("UPDATE repositories SET rulesets_authorized_at = NULL WHERE name = 'api'")
        work(asked.harness)
        assert names(asked.harness.fake_github) == {"web": OURS}
        outcome, written, problem = state(asked.harness)
        assert (outcome, written) == ("failed", 1)
        assert "acme/api: an administrator must authorise" in str(problem)

    def test_denied_authorization_changes_nothing(self, asked: Asked) -> None:
        back = {"error": "access_denied", "state": asked.go()["state"]}
        page = asked.look(back)
        assert page.status_code == 400
        assert "Nothing was written" in page.text


class TestAuthorizationAttacks:
    def test_opening_the_authorization_page_writes_nothing(self, asked: Asked) -> None:
        back = asked.go()
        asked.look(back)
        asked.look(back)
        assert names(asked.harness.fake_github) == {}
        assert asked.confirm(form_of(asked.look(back))).status_code == 200

    def test_authorization_state_is_used_once(self, asked: Asked) -> None:
        form = form_of(asked.look(asked.go()))
        assert asked.confirm(form).status_code == 200
        replayed = asked.confirm(form)
        assert replayed.status_code == 409
        assert "2 of 2 rulesets are written" in replayed.text
        assert asked.look(asked.go()).status_code == 409

    def test_authorization_state_expires_after_a_day(self, asked: Asked) -> None:
        form = form_of(asked.look(asked.go()))
        asked.harness.uow_factory.clock.offset = timedelta(hours=23)  # type: ignore[attr-defined]
        assert asked.look(asked.go()).status_code == 200
        asked.harness.uow_factory.clock.offset = timedelta(days=1)  # type: ignore[attr-defined]
        assert asked.confirm(form).status_code == 410
        assert asked.look(asked.go()).status_code == 410
        assert names(asked.harness.fake_github) == {}

    def test_guessed_authorization_state_is_not_found(self, asked: Asked) -> None:
        ours = asked.harness.organization.id
        for guess in ("", "x", "org_06aq1m3k0v5t8c2n7d4e9f1g41.guess", f"{ours}.guess", f"{ours}.", "\x00"):
            assert asked.look({**asked.go(), "state": guess}).status_code == 404, guess

    def test_authorization_state_of_another_organization_is_not_found(self, asked: Asked) -> None:
        globex = factories.organization(asked.harness.session, "Globex")
        asked.harness.session.commit()
        back = asked.go()
        stolen = globex.id + "." + back["state"].partition(".")[2]
        assert asked.look({**back, "state": stolen}).status_code == 404

    def test_code_of_another_authorization_is_refused_by_github(self, asked: Asked) -> None:
        other = asked.go("root", asked.ask_again())
        form = form_of(asked.look({**asked.go(), "code": other["code"]}))
        page = asked.confirm(form)
        assert page.status_code == 400
        assert "bad_verification_code" in page.text
        assert names(asked.harness.fake_github) == {}

    def test_authorization_requires_an_administrator_of_every_repository(self, asked: Asked) -> None:
        right(asked.harness, "root", acme__web="admin", acme__api="push")
        page = asked.do()
        assert page.status_code == 403
        assert "root is not an administrator of acme/api. Nothing was written." in page.text
        assert "Apply again, and have an administrator open the new address." in page.text
        assert "0 of 2 rulesets are written. Apply again for a new address." in asked.look(asked.go()).text
        assert names(asked.harness.fake_github) == {}
        assert asked.harness.fake_github.oauth.tokens == set()

    def test_authorization_form_of_another_site_is_refused(self, asked: Asked) -> None:
        for headers in (
            {"Origin": "https://evil.test"},
            {"Origin": "http://freeze.test.evil.test"},
            {"Origin": "https://freeze.test"},
            {"Origin": "null"},
            {"Origin": "null", "Sec_Fetch_Site": "cross-site"},
            {"Origin": "null", "Sec_Fetch_Site": "same-site"},
            {"X_Nothing": "1"},
        ):
            form = form_of(asked.look(asked.go()))
            assert asked.confirm(form, **headers).status_code == 403, headers
        assert names(asked.harness.fake_github) == {}

    @pytest.mark.parametrize("token", ["", "0" * 64])
    def test_authorization_form_without_its_token_is_refused(self, asked: Asked, token: str) -> None:
        form = {**form_of(asked.look(asked.go())), "token": token}
        assert asked.confirm(form).status_code == 403
        assert names(asked.harness.fake_github) == {}

    def test_authorization_form_in_another_browser_is_refused(self, asked: Asked) -> None:
        form = form_of(asked.look(asked.go()))
        asked.browser.delete_cookie("setup", domain="freeze.test")
        assert asked.confirm(form).status_code == 403

    def test_authorization_page_is_not_framed_cached_or_sent_as_referrer(self, asked: Asked) -> None:
        page = asked.look(asked.go())
        policy = page.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "form-action 'self'" in policy
        assert page.headers["Referrer-Policy"] == "no-referrer"
        assert page.headers["Cache-Control"] == "no-store"
        cookie = page.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert Page(page.text).inline == []

    def test_authorization_page_escapes_the_name_of_the_requester(self, asked: Asked) -> None:
        name = json.dumps({"type": "user", "id": "usr_x", "name": "<script>alert(1)</script>"})
        asked.harness.sql("UPDATE enforcement_setups SET requested_by = CAST(:name AS jsonb)", name=name)
        page = asked.look(asked.go())
        assert "<script>" not in page.text
        assert "&lt;script&gt;" in page.text

    def test_large_authorization_form_is_refused(self, asked: Asked) -> None:
        asked.look(asked.go())
        assert asked.confirm({"state": "x" * 20_000}).status_code == 413

    def test_code_state_and_token_are_stored_in_no_row_or_log(
        self, asked: Asked, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        back = asked.go()
        asked.confirm(form_of(asked.look(back)))
        secrets = [*asked.harness.fake_github.oauth.issued, back["state"], back["state"].partition(".")[2]]
        tables = [row[0] for row in asked.harness.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
        kept = "".join(str(asked.harness.sql(f"SELECT t::text FROM {table} t")) for table in tables)
        mine = [
            record.getMessage() for record in caplog.records if record.name.split(".")[0] not in {"urllib3", "httpx"}
        ]
        assert len(secrets) >= 4
        assert [secret for secret in secrets if secret in kept or secret in "".join(mine)] == []
        assert asked.harness.sql("SELECT code_verifier FROM enforcement_setups") == [(None,)]


def test_error_without_an_oauth_client_names_the_missing_permission(asked: Asked) -> None:
    with (
        pytest.raises(ServiceError) as refused,
        asked.harness.uow_factory.open(Caller(asked.harness.organization.id, ADA, "dashboard", BUSINESS)) as uow,
    ):
        set_up(uow, {"type": "organization"}, "apply")
    assert refused.value.code == "admin_authorization_required"
    assert "no OAuth client for GitHub" in refused.value.message
    assert "Administration: write" in refused.value.message
    assert refused.value.details[0].extra is None
    assert not refused.value.commit_on_error
