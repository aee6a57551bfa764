"""`/`: what is frozen, whether it blocks, and what comes next; at first, the steps up to the first freeze."""

from typing import Any, NamedTuple

from flask import Response, request

from rules import web_addresses
from web.dashboard.page import DashboardPage, NoOrganizationError
from web.operations import Call


class Step(NamedTuple):
    """A step up to the first freeze, in the words of the page: what to do, and the page that does it."""

    title: str
    text: str
    button: str
    address: str


STEPS = {
    "organization": Step("Your organisation", "Create one, or accept an invitation to one.", "", ""),
    "installation": Step(
        "Connect GitHub",
        "Install the GitHub App in the account that owns your repositories. Nothing is frozen by that.",
        "Connect GitHub",
        web_addresses.INSTALLED,
    ),
    "repositories": Step(
        "Enable repositories",
        "Choose the repositories that freezes may cover. Their default branches are watched from then on.",
        "Choose repositories",
        web_addresses.REPOSITORIES,
    ),
    "branches": Step(
        "Watch branches", "Freezes cover watched branches. Watch one at least.", "Choose branches",
        web_addresses.REPOSITORIES,
    ),
    "enforcement": Step(
        "Let freezes block",
        "GitHub blocks merging only where a rule requires our check. Set up the rules, and see which branches block.",
        "Set up the rules",
        web_addresses.ENFORCEMENT_SETUP,
    ),
    "first_freeze": Step(
        "Start the first freeze", "See what it would cover before it starts. Lift it at any time.", "Start a freeze",
        web_addresses.NEW_FREEZE,
    ),
}  # fmt: skip


class Overview(DashboardPage):
    """The first page: what is frozen, what comes next, and what needs attention."""

    path = section = web_addresses.HOME
    notices = {
        "joined": "You joined the organisation.",
        "switched": "You switched organisations.",
        "made": "Your organisation has been created. You are its owner.",
    }

    def get(self) -> Response:
        """Show the overview, or the steps while there is nothing to show in it."""
        try:
            overview, onboarding = self.read(Call("get_overview"), Call("get_onboarding"))
        except NoOrganizationError:
            return self._begin()
        if _is_being_set_up(overview, onboarding):
            return self.show("onboarding.html", onboarding=onboarding, steps=STEPS)
        shown = {"overview": overview, "may_lift": self.may("lift_freeze"), "setting_up": not onboarding["complete"]}
        return self.show("overview.html", onboarding=onboarding, steps=STEPS, moving=is_moving(overview), **shown)

    def _begin(self) -> Response:
        """Show the steps to a person without an organisation."""
        lists = ("list_my_organizations", "list_pending_invitations")
        _, [onboarding, organizations, invitations] = self.context.read(self.path, "get_onboarding", *lists)
        found = {"organizations": organizations["data"], "invitations": invitations["data"]}
        return self.show("onboarding.html", onboarding=onboarding, steps=STEPS, **found)


class OverviewPart(DashboardPage):
    """The part of the overview that reads itself again."""

    path = web_addresses.OVERVIEW_PART
    section = web_addresses.HOME

    def get(self) -> Response:
        """Show the part."""
        [overview] = self.read_part(Call("get_overview"))
        flags = {name: request.args.get(name) == "1" for name in ("may_lift", "setting_up")}
        return self.show_part("overview_part.html", overview=overview, moving=is_moving(overview), **flags)


class Onboarding(DashboardPage):
    """`/onboarding`: the steps up to the first freeze."""

    path = web_addresses.ONBOARDING
    section = web_addresses.HOME

    def get(self) -> Response:
        """Show the steps."""
        [onboarding] = self.read(Call("get_onboarding"))
        return self.show("onboarding.html", onboarding=onboarding, steps=STEPS)


def _is_being_set_up(overview: Any, onboarding: Any) -> bool:
    """True while the steps are all that there is to say: no branch blocks yet, and nothing is frozen."""
    open_steps = {step["name"] for step in onboarding["steps"] if not step["done"]}
    blocks = overview["enforcement"]["counts"]["green"] or overview["branches"]["frozen"]
    return not blocks and bool(open_steps - {"first_freeze"})


def is_moving(overview: Any) -> bool:
    """True if checks of a freeze are being written."""
    return any(
        freeze["targets"]["pending"] + freeze["targets"]["releasing"] for freeze in overview["freezes"]["newest"]
    )
