"""Every page of schedules, repositories, audit and settings in a real browser, in every look.

`PICTURES=<directory>` keeps a picture of each page.
"""

from datetime import timedelta

from sqlalchemy import update

from models.slack import SlackConnection
from tests import factories
from tests.harness.browser import Browser
from tests.web.people.conftest import PASSWORD
from tests.web.people.dashboard.conftest import Enter, Scene
from tests.web.people.dashboard.scenes import fill_organization
from tests.web.people.dashboard.test_in_chromium import judge, judge_all
from tests.web.people.in_chromium import in_chromium, sign_in
from tools.fake_slack import Handle
from tools.fake_slack.model import Channel

pytestmark = in_chromium(95)
EMPTY = {
    "schedules-empty": "/schedules",
    "calendar-empty": "/calendar",
    "timeline-empty": "/timeline",
    "audit-empty": "/audit?action=freeze.started",
    "settings-viewer": "/settings",
    "members-viewer": "/settings/members",
}
FILLED = {
    "schedules": "/schedules",
    "schedule-new": "/schedules/new",
    "schedule": "/schedules/{schedule}",
    "schedule-edit": "/schedules/{schedule}/edit",
    "import": "/import",
    "import-holidays": "/import?from=holidays",
    "calendar": "/calendar?month={month}",
    "timeline": "/timeline?days=90",
    "timeline-list": "/timeline?days=90&view=list",
    "audit": "/audit",
    "repositories": "/repositories",
    "repository": "/repositories/{repository}",
    "branches": "/branches",
    "branch": "/branches/{branch}",
    "setup": "/enforcement/setup",
    "settings": "/settings",
    "members": "/settings/members",
    "keys": "/settings/keys",
    "calendars": "/settings/calendars",
    "webhooks": "/settings/webhooks",
    "webhook": "/settings/webhooks/{webhook}",
    "notifications": "/settings/notifications",
    "profile": "/settings/profile",
    "slack": "/slack",
    "github": "/installed",
    "clients": "/connections",
    "status": "/status",
    "refused": "/branches/wbr_unknown",
    "guide": "/docs/guide",
    "guide-chapter": "/docs/guide/mcp",
}
ANSWERED = {
    "import-result": ("/import?from=holidays", "document.getElementById('country').value = 'DE'", "try"),
    "schedule-refused": ("/schedules/new", "document.getElementById('timezone').value = 'Mars'", "save"),
    "key-refused": ("/settings/keys", "0", "create"),
    "webhook-refused": ("/settings/webhooks", "document.getElementById('url').value = 'http://localhost'", "create"),
    "exception-rule-refused": ("/exceptions/rules", "document.getElementById('label_by').value = 'octocat'", "create"),
    "exception-rule-preview": ("/exceptions/rules", "document.getElementById('files').value = 'docs/**'", "preview"),
    "settings-refused": ("/settings", "document.getElementById('name').value = ''", "save"),
}
"""Forms that are sent, by the names of their pictures: address, what is filled in, and the button's value."""


def test_pages_without_anything_are_accessible_and_quiet(
    browser: Browser, site: str, acme: Scene, member: Enter
) -> None:
    member("viewer")
    sign_in(browser, site, "viewer@example.test", PASSWORD)
    judge_all(browser, site, EMPTY)


def test_filled_pages_are_accessible_and_quiet(browser: Browser, site: str, acme: Scene, member: Enter) -> None:
    ids = fill_organization(member("admin"), acme)
    names = {**ids, "month": f"{factories.now() + timedelta(days=30):%Y-%m}"}
    sign_in(browser, site, "admin@example.test", PASSWORD)
    judge_all(browser, site, {name: path.format(**names) for name, path in FILLED.items()})


def test_pages_of_channels_are_accessible_and_quiet(
    browser: Browser, site: str, acme: Scene, member: Enter, slack_of_pages: Handle
) -> None:
    slack, admin = slack_of_pages.slack, member("admin")
    slack.reset()
    many = {f"C0TEAM{number}": Channel(f"C0TEAM{number}", f"team-{number}", joined=True) for number in range(60)}
    slack.workspaces["T0ACME"].channels.update(many)
    slack.workspaces["T0ACME"].channels["C0TEAM0"].name = "t" * 80
    back = slack.install(admin.press(admin.open("/slack"), "Install the app").links["Continue at Slack"])
    admin.press(admin.open("/slack", **back), "Connect")
    factories.slack_subscription(acme.session, acme.organization)
    sign_in(browser, site, "admin@example.test", PASSWORD)
    judge_all(
        browser, site, {"slack-found": "/slack?find=rele", "slack-many": "/slack?find=t", "slack-none": "/slack?find=x"}
    )
    slack.faults.add("error", "/api/conversations.list", status=429)
    judge_all(browser, site, {"slack-refused": "/slack?find=x"})
    acme.session.execute(update(SlackConnection).values(scopes=["chat:write"]))
    acme.session.commit()
    judge_all(browser, site, {"slack-without-permission": "/slack"})


def test_answered_forms_are_accessible_and_quiet(browser: Browser, site: str, acme: Scene, member: Enter) -> None:
    member("admin")
    sign_in(browser, site, "admin@example.test", PASSWORD)
    browser.run_scripts(enabled=True)
    for name, (path, filled, button) in ANSWERED.items():
        browser.open(site + path)
        browser.value(f"{filled}; document.querySelector('main button[value={button}]').click()")
        browser.go_on()
        judge(browser, name)
