"""`/exceptions` and `/pulls`: why a pull request is blocked, and who lets it through."""

import re
from typing import NamedTuple

import pytest
from sqlalchemy import select

from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.pull_requests import PullRequest
from rules.freezes.pull_references import page_of_pulls
from rules.notifications.links import page_of
from tests import factories
from tests.web.people.dashboard.conftest import Enter, Scene, words

REASON = "Payments fail; this is the fix"


class Blocked(NamedTuple):
    """A pull request and the freeze that blocks it."""

    scene: Scene
    freeze: Freeze

    def rows(self) -> list[PullRequestException]:
        """Return the exceptions."""
        self.scene.session.expire_all()
        return list(self.scene.session.scalars(select(PullRequestException)))


@pytest.fixture
def blocked(acme: Scene) -> Blocked:
    factories.pull_request(acme.session, acme.repositories[0], 7, title="Fix payments")
    return Blocked(acme, factories.freeze(acme.session, acme.organization, [acme.web], reason="Quarter-end close"))


def ask(enter: Enter, role: str) -> None:
    """Ask for an exception for the pull request, as a member with this role."""
    person = enter(role)
    page = person.open("/pulls/request", ref="acme/web#7")
    person.press(page, "Ask for it", reason=REASON)


class TestPullRequest:
    def test_page_says_why_a_pull_request_is_blocked_and_takes_a_request(self, member: Enter, blocked: Blocked) -> None:
        viewer = member("viewer")
        assert "Why is a pull request blocked?" in words(viewer.open("/pulls"))
        assert "Pull request must be the URL of a pull request" in words(viewer.open("/pulls", ref="web"))
        page = viewer.open("/pulls", ref="acme/web#7")
        assert page.title == "acme/web#7 is blocked"
        assert "Quarter-end close" in page.text
        assert "Until its freezes are lifted, or an exception is granted." in words(page)
        form = viewer.open(page.links["Ask for an exception"])
        assert "Grant it now" not in form.text
        refused = viewer.press(form, "Ask for it", reason="short")
        assert "#reason" in refused.links.values()
        page = viewer.press(refused, "Ask for it", reason=REASON)
        assert "The exception is requested." in page.text
        assert "Requested “Payments fail; this is the fix”" in words(page)
        assert "Ask for an exception" not in page.links
        [row] = blocked.rows()
        assert (row.decision, row.pin_to_head) == (None, True)

    def test_list_names_the_rule_that_granted(self, member: Enter, blocked: Blocked) -> None:
        scene = blocked.scene
        pull = scene.session.scalars(select(PullRequest)).one()
        rule = factories.exception_rule(scene.session, scene.organization, name="Hotfixes")
        by_rule = {"rule_id": rule.id, "rule_name": "Hotfixes"}
        factories.exception(scene.session, blocked.freeze, pull, scene.web, **by_rule)
        page = member("viewer").open("/exceptions")
        assert "by the rule Hotfixes" in words(page)
        assert page.links["Hotfixes"] == f"/exceptions/rules/{rule.id}"

    def test_page_says_what_each_rule_misses(self, member: Enter, blocked: Blocked) -> None:
        scene = blocked.scene
        pull = scene.session.scalars(select(PullRequest)).one()
        rule = factories.exception_rule(scene.session, scene.organization, name="Hotfixes")
        needs = "the label hotfix, set by @acme/release-captains on this head"
        missed = {"outcome": "missed", "requires": needs, "found": "It was set by mallory."}
        factories.rule_result(scene.session, rule, pull, outcome="missed", conditions=[missed])
        shown = words(member("viewer").open("/pulls", ref="acme/web#7"))
        assert "Does not let it in Hotfixes" in shown
        assert f"Needs {needs}. It was set by mallory." in shown

    def test_person_who_decides_grants_at_once(self, member: Enter, blocked: Blocked) -> None:
        admin = member("admin")
        form = admin.open("/pulls/request", ref="acme/web#7")
        page = admin.press(form, "Grant it now", reason=REASON, expires_at="2099-01-04T09:00")
        assert page.title == "acme/web#7 may merge"
        assert "The exception is granted." in page.text
        assert [row.decision for row in blocked.rows()] == ["granted"]

    def test_buttons_of_mails_lead_to_the_request_and_to_the_exception(self, member: Enter, blocked: Blocked) -> None:
        ask(member, "viewer")
        [row] = blocked.rows()
        target, admin = {"type": "exception", "id": row.id, "name": "acme/web#7"}, member("admin")
        for action, needed in (("exception.requested", "Approve"), ("exception.granted", "Requested")):
            address, _, place = page_of(action, target).path.partition("#")
            page = admin.open(address)
            assert page.status == 200
            assert place in page.ids
            assert needed in page.text

    def test_pull_request_without_a_freeze_may_merge(self, member: Enter, acme: Scene) -> None:
        factories.pull_request(acme.session, acme.repositories[0], 7)
        page = member("viewer").open("/pulls", ref="https://github.com/acme/web/pull/7")
        assert page.title == "acme/web#7 may merge"
        assert "No freeze covers it." in page.text

    def test_link_of_a_check_opens_the_page_of_its_pull_request(self, member: Enter, blocked: Blocked) -> None:
        repository = blocked.scene.repositories[0]
        repository.name = "website"
        blocked.scene.session.flush()
        link = page_of_pulls("", repository.id, [7])
        assert member("viewer").open(link).title == "acme/website#7 is blocked"

    def test_link_of_a_check_lists_the_pull_requests_that_share_it(self, member: Enter, blocked: Blocked) -> None:
        repository = blocked.scene.repositories[0]
        factories.pull_request(blocked.scene.session, repository, 9, title="The same again")
        page = member("viewer").open(page_of_pulls("", repository.id, [7, 9, 11]))
        assert page.title == "2 pull requests share this commit"
        assert "acme/web#9 The same again into main" in words(page)
        assert "11: Pull request acme/web#11 not found." in words(page)
        assert page.links["acme/web#7"] == "/pulls?ref=acme%2Fweb%237"

    def test_list_has_what_must_not_merge_and_takes_requests(self, member: Enter, blocked: Blocked) -> None:
        scene = blocked.scene
        factories.pull_request(scene.session, scene.repositories[1], 8, title="Not frozen")
        viewer = member("viewer")
        page = viewer.open(viewer.open("/").links["Pull requests"])
        assert page.title == "Pull requests that must not merge"
        assert "acme/web#7 Fix payments into main, by" in words(page)
        assert "✓ Blocked" in words(page)
        assert "Quarter-end close" in page.links
        assert "Not frozen" not in page.text
        [asks, *_] = [each for each in page.addresses if "/request?" in each]
        viewer.press(viewer.open(asks), "Ask for it", reason=REASON)
        assert "Requested by Viewer" in words(viewer.open("/pulls"))

    def test_requester_withdraws_from_the_list_and_from_the_page(self, member: Enter, blocked: Blocked) -> None:
        viewer, other = member("viewer"), member("member")
        viewer.press(viewer.open("/pulls/request", ref="acme/web#7"), "Ask for it", reason=REASON)
        [row] = blocked.rows()
        address = f"/exceptions/{row.id}/revoke"
        for path in ("/pulls", "/pulls?ref=acme/web%237"):
            assert [address in person.open(path).addresses for person in (viewer, other)] == [True, False]
        viewer.press(viewer.open(address), "Withdraw")
        assert "Requested by" not in viewer.open("/pulls").text

    @pytest.mark.parametrize(("of", "shown"), [("freeze", True), ("branch", True), ("other", False)])
    def test_list_is_of_a_freeze_or_a_branch(self, member: Enter, blocked: Blocked, of: str, shown: bool) -> None:
        scene = blocked.scene
        other = factories.freeze(scene.session, scene.organization, [scene.api], reason="Another one")
        page = {"freeze": f"/freezes/{blocked.freeze.id}", "branch": f"/branches/{scene.web.id}"}
        viewer = member("viewer")
        opened = viewer.open(page.get(of, f"/freezes/{other.id}"))
        listed = viewer.open(opened.links["Pull requests that must not merge"])
        assert ("acme/web#7" in listed.text, "No open pull request must wait" in listed.text) == (shown, not shown)

    def test_freeze_without_exceptions_takes_no_request(self, member: Enter, blocked: Blocked) -> None:
        blocked.freeze.exceptions_allowed = False
        blocked.scene.session.flush()
        page = member("viewer").open("/pulls", ref="acme/web#7")
        assert "Allows no exceptions" in page.text
        assert "Ask for an exception" not in page.links

    def test_former_name_of_a_repository_finds_its_pull_request(self, member: Enter, blocked: Blocked) -> None:
        blocked.scene.repositories[0].name = "website"
        blocked.scene.session.flush()
        viewer = member("viewer")
        for ref in ("acme/web#7", "https://github.com/acme/web/pull/7"):
            page = viewer.open("/pulls", ref=ref)
            assert (page.status, page.title) == (200, "acme/website#7 is blocked")
        form = viewer.open("/pulls/request", ref="acme/web#7")
        assert viewer.press(form, "Ask for it", reason=REASON).title == "acme/website#7 is blocked"
        assert viewer.open("/pulls?ref=acme/web%237&ref=acme/website%237").status == 200
        assert "acme/website#7" in viewer.open("/pulls", repo="acme/web").text

    @pytest.mark.parametrize("ref", ["acme/web#99", "none/none#1", "what"])
    def test_unknown_pull_request_is_reported_at_the_field(self, member: Enter, blocked: Blocked, ref: str) -> None:
        page = member("viewer").open("/pulls", ref=ref)
        assert (page.status, page.title) == (404, "Why is a pull request blocked?")
        assert 'id="ref-problem"' in page.answer.text

    def test_missing_plan_is_named_in_place_of_the_button(self, member: Enter, blocked: Blocked) -> None:
        factories.change_plan(blocked.scene.session, blocked.scene.organization, "free")
        owner = member("owner")
        page = owner.open("/pulls", ref="acme/web#7")
        assert "Exceptions need the Team plan." in words(page)
        assert "Ask for an exception" not in page.links
        assert "Exceptions need the Team plan." in words(owner.open("/exceptions"))


class TestInbox:
    def test_request_across_freezes_has_the_places_that_events_name(self, member: Enter, blocked: Blocked) -> None:
        scene = blocked.scene
        factories.freeze(scene.session, scene.organization, [scene.web], reason="Database migration")
        ask(member, "member")
        rows = blocked.rows()
        assert len(rows) == 2
        places = {rows[0].request_group_id, *(row.id for row in rows)}
        assert places <= set(member("admin").open("/exceptions").ids)

    def test_admin_approves_a_request(self, member: Enter, blocked: Blocked) -> None:
        ask(member, "viewer")
        admin = member("admin")
        page = admin.open("/exceptions")
        assert f"“{REASON}”" in page.text
        form = admin.open(page.links["Approve"])
        assert "acme/web#7" in form.title
        row = blocked.rows()[0]
        page = admin.press(admin.open(f"/exceptions/{row.id}/decide"), "Approve", reason="Agreed on the call")
        assert "The exception is granted." in page.text
        assert "No request waits" in page.text
        assert [each.decision for each in blocked.rows()] == ["granted"]
        page = admin.press(admin.open(f"/exceptions/{row.id}/revoke"), "Revoke")
        assert "The exception is revoked." in page.text
        assert blocked.rows()[0].revoked_at is not None
        assert "Revoked" in admin.open("/exceptions", state="revoked").text

    def test_inbox_says_what_shares_the_commit_and_when_a_revoked_one_is_blocked(
        self, member: Enter, blocked: Blocked
    ) -> None:
        session, web = blocked.scene.session, blocked.scene.web
        [pull] = session.scalars(select(PullRequest))
        check = factories.head_check(session, web, pull.head_sha, "success")
        row = factories.exception(session, blocked.freeze, pull, web)
        viewer = member("viewer")
        assert "shares its commit" not in viewer.open("/exceptions").text
        factories.pull_request(session, blocked.scene.repositories[0], 9, head_sha=pull.head_sha)
        assert "shares its commit with acme/web#9: each needs an exception" in words(viewer.open("/exceptions"))
        row.revoked_at = factories.now()
        session.flush()
        page = words(viewer.open("/exceptions"))
        assert "not blocked yet Checks that say success are being replaced." in page
        assert "shares its commit" not in page
        check.conclusion = "failure"
        session.flush()
        assert "blocked since" in words(viewer.open("/exceptions"))

    def test_inbox_has_pages_of_requests_besides_those_of_decisions(self, member: Enter, blocked: Blocked) -> None:
        acme = blocked.scene
        for number in range(26):
            pull = factories.pull_request(acme.session, acme.repositories[0], 100 + number)
            for decision in (None, "denied"):
                factories.exception(acme.session, blocked.freeze, pull, acme.web, decision=decision)
        viewer = member("viewer")
        page = viewer.open("/exceptions", state="denied")
        assert "26 requests wait, the newest first." in words(page)
        assert page.text.count("The hotfix") == 50
        [more] = re.findall(r'/exceptions\?state=denied&amp;(requests=\S+)"', page.answer.text)
        requests, decided = viewer.open(f"/exceptions?{more}&state=denied"), viewer.open(page.links["Next rows"])
        assert [each.text.count("The hotfix") for each in (requests, decided)] == [26, 26]

    def test_admin_denies_a_request(self, member: Enter, blocked: Blocked) -> None:
        ask(member, "viewer")
        admin = member("admin")
        row = blocked.rows()[0]
        page = admin.press(admin.open(f"/exceptions/{row.id}/decide", decision="deny"), "Deny", reason="Not now")
        assert "The request is denied." in page.text
        assert [each.decision for each in blocked.rows()] == ["denied"]
        assert admin.press(admin.open(f"/exceptions/{row.id}/decide"), "Approve").status == 409

    def test_requester_withdraws_and_does_not_decide(self, member: Enter, blocked: Blocked) -> None:
        admin = member("admin")
        admin.press(admin.open("/pulls/request", ref="acme/web#7"), "Ask for it", reason=REASON)
        page = admin.open("/exceptions")
        assert "Another person decides on your request." in page.text
        assert "Approve" not in page.text
        [row] = blocked.rows()
        assert "Exception requested" in admin.open("/pulls", ref="acme/web#7").text
        page = admin.press(admin.open(f"/exceptions/{row.id}/revoke"), "Withdraw")
        assert "The request is withdrawn." in page.text
        page = admin.open("/exceptions")
        assert "No request waits" in page.text
        for shown in (page, admin.open("/pulls", ref="acme/web#7")):
            assert ("Withdrawn" in shown.text, "Exception requested" in shown.text) == (True, False)

    def test_member_who_may_not_decide_sees_no_buttons(self, member: Enter, blocked: Blocked) -> None:
        ask(member, "admin")
        page = member("viewer").open("/exceptions")
        assert "people with a higher role decide on requests in Acme" in words(page)
        assert {"Approve", "Deny", "Withdraw"} & set(page.links) == set()
        assert "Approve" not in page.text

    def test_inbox_refuses_a_form_without_a_decision(self, member: Enter, blocked: Blocked) -> None:
        ask(member, "viewer")
        admin = member("admin")
        form = admin.open(f"/exceptions/{blocked.rows()[0].id}/decide")
        assert admin.press(form, "Approve", decision="perhaps").status == 422
