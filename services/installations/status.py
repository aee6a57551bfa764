"""What becomes of an installation: the code host is asked, never the payload that made us ask."""

from sqlalchemy import select, text

from integrations.github import ErrorKind, GitHub, GitHubError, InstallationInfo
from models.freezes import Freeze
from models.installations import Installation
from models.queries import in_force
from rules.access.permissions import CODE_HOST, SYSTEM
from rules.rulesets.app_permissions import missing_permissions
from services.alerts.alerts import Item, clear_item, raise_item
from services.core.unit_of_work import Caller, Unit, Units
from services.freezes.end import audit_end, end, lock_branches
from services.github_access.client import page


def examine(units: Units, github: GitHub, installation_id: int) -> str | None:
    """Ask the code host about an installation and record its state; None for one that no organisation has claimed.

    A removed one ends the organisation's freezes: nothing can be written there any more, and what is written stays.
    One that is active again, or may do more or less than before, gets every branch looked at anew. Where somebody else
    has recorded an answer while we waited for ours, ours may be the older one: it is asked for once more.
    """
    while True:
        with units.open(Caller(None, SYSTEM, "system")) as unit:
            found = unit.session.get(Installation, installation_id)
            owner, examination = (found.organization_id, found.examination) if found else (None, 0)
        if owner is None:
            return None
        info = ask(github, installation_id)
        with units.open(Caller(owner, CODE_HOST, "code_host")) as unit:
            installation = unit.session.get_one(Installation, installation_id, with_for_update=True)
            if installation.examination == examination:
                return record(unit, installation, info)


def record(unit: Unit, installation: Installation, info: InstallationInfo | None) -> str:
    """Write down what the code host told of an installation that is locked, and react; returns its state."""
    installation.examination += 1
    before, after = installation.state, _state(info)
    allowed = installation.permissions
    installation.state = after
    if info is not None:
        installation.account = info.account_login
        installation.repository_selection = info.repository_selection
        installation.permissions = dict(info.permissions)
    _attend(unit, installation)
    if before != after:
        _react(unit, installation, before, after)
    elif after == "active" and allowed != installation.permissions:
        look_at_everything(unit, installation.id)
    return after


def _attend(unit: Unit, installation: Installation) -> None:
    """Have somebody grant what the App was not granted; a removed or suspended installation is another matter."""
    key = f"missing_permissions {installation.id}"
    missing = missing_permissions(installation.permissions) if installation.state == "active" else []
    if not missing:
        clear_item(unit, key)
        return
    settings = page(unit, "organizations", installation.account, "settings", "installations", str(installation.id))
    raise_item(
        unit,
        Item(
            key=key,
            type="missing_permissions",
            severity="critical" if "checks:write" in missing else "warning",
            subject=("installation", str(installation.id), installation.account),
            message=f"The GitHub App lacks {', '.join(missing)} in {installation.account}. Accept what it asks for.",
            action=("Open the installation", settings),
        ),
    )


def ask(github: GitHub, installation_id: int) -> InstallationInfo | None:
    """Return what the code host tells of an installation; None for one that is gone."""
    try:
        return github.installation(installation_id)
    except GitHubError as error:
        if error.kind is ErrorKind.INSTALLATION_REMOVED:
            return None
        raise


def _state(info: InstallationInfo | None) -> str:
    if info is None:
        return "removed"
    return "suspended" if info.suspended_at else "active"


def _react(unit: Unit, installation: Installation, before: str, state: str) -> None:
    target = ("installation", str(installation.id), installation.account)
    unit.audit(f"installation.{state}", target, before={"state": before}, after={"state": state})
    if state == "removed":
        running = select(Freeze).where(Freeze.organization_id == unit.organization, in_force(unit.now))
        ending = unit.session.scalars(running.order_by(Freeze.id).with_for_update()).all()
        lock_branches(unit, ending)
        for freeze in ending:
            end(unit, freeze, "installation_removed", unit.now, unit.actor)
            audit_end(unit, "freeze.ended", freeze)
    elif state == "active":
        look_at_everything(unit, installation.id)


def look_at_everything(unit: Unit, installation_id: int) -> None:
    """Make every branch of an installation due, to be read back."""
    unit.session.execute(
        text(
            "WITH every AS (SELECT b.id FROM watched_branches b JOIN repositories r ON r.id = b.repository_id "
            "WHERE r.installation_id = :installation AND r.removed_at IS NULL ORDER BY b.id FOR NO KEY UPDATE OF b) "
            "UPDATE watched_branches b SET due_at = :now, read_back = true, attempts = 0 "
            "FROM every WHERE b.id = every.id"
        ),
        {"now": unit.now, "installation": installation_id},
    )
    unit.wake("reconcile")
