"""Status of installations. It is always fetched from GitHub's API; a webhook payload only triggers the fetch."""

from sqlalchemy import text

from integrations.github import ErrorKind, GitHub, GitHubError, InstallationInfo
from models.installations import Installation
from rules.access.permissions import CODE_HOST
from rules.rulesets.app_permissions import missing_permissions
from services.alerts.alerts import Alert, open_alert, resolve_alert
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWork, UnitOfWorkFactory
from services.freezes.end import end_all_freezes
from services.github_access.client import installation_page

_READ_BACK = text("""
    WITH every AS MATERIALIZED (
        SELECT c.id FROM checks c JOIN repositories r ON r.id = c.repository_id
        WHERE c.installation_id = :installation AND r.removed_at IS NULL ORDER BY c.id FOR NO KEY UPDATE OF c
    ), requested AS (
        INSERT INTO read_backs (check_id, at, organization_id)
        SELECT c.id, :now, c.organization_id FROM every JOIN checks c ON c.id = every.id ON CONFLICT DO NOTHING
    )
    UPDATE checks c SET due_at = :now, attempts = 0 FROM every WHERE c.id = every.id
""")


def refresh_status(uow_factory: UnitOfWorkFactory, github: GitHub, installation_id: int) -> str | None:
    """Fetch an installation from GitHub and save its state; return None if no organisation has claimed it.

    If it was removed, the organisation's freezes end: checks can no longer be written, and written ones stay. If it is
    active again or its permissions changed, all branches are read again. If another process has saved a state while
    this one waited for GitHub, the own answer may be older, and it is fetched again.
    """
    while True:
        with uow_factory.open(SYSTEM_CALLER) as uow:
            found = uow.session.get(Installation, installation_id)
            owner, status_version = (found.organization_id, found.status_version) if found else (None, 0)
        if owner is None:
            return None
        info = fetch(github, installation_id)
        with uow_factory.open(Caller(owner, CODE_HOST, "code_host")) as uow:
            installation = uow.session.get_one(Installation, installation_id, with_for_update=True)
            if installation.status_version == status_version:
                return save_state(uow, installation, info)


def save_state(uow: UnitOfWork, installation: Installation, info: InstallationInfo | None) -> str:
    """Save what GitHub returned for a locked installation, apply the consequences, and return the new state."""
    installation.status_version += 1
    before, after = installation.state, _state(info)
    permissions = installation.permissions
    installation.state = after
    if info is not None:
        installation.account = info.account_login
        installation.repository_selection = info.repository_selection
        installation.permissions = dict(info.permissions)
    _update_permission_alert(uow, installation)
    if before != after:
        _handle_state_change(uow, installation, before, after)
    elif after == "active" and permissions != installation.permissions:
        read_back_installation(uow, installation.id)
    return after


def _update_permission_alert(uow: UnitOfWork, installation: Installation) -> None:
    """Open an alert if the App lacks permissions, resolve it otherwise; only active installations have one."""
    key = f"missing_permissions {installation.id}"
    missing = missing_permissions(installation.permissions) if installation.state == "active" else []
    if not missing:
        resolve_alert(uow, key)
        return
    open_alert(
        uow,
        Alert(
            key=key,
            type="missing_permissions",
            severity="critical" if "checks:write" in missing else "warning",
            subject=("installation", str(installation.id), installation.account),
            message=f"The GitHub App lacks {', '.join(missing)} in {installation.account}. "
            "Accept the requested permissions.",
            action=("Open the installation", installation_page(uow, installation)),
        ),
    )


def fetch(github: GitHub, installation_id: int) -> InstallationInfo | None:
    """Return the installation from GitHub, or None if it no longer exists."""
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


def _handle_state_change(uow: UnitOfWork, installation: Installation, before: str, state: str) -> None:
    target = ("installation", str(installation.id), installation.account)
    uow.audit(f"installation.{state}", target, before={"state": before}, after={"state": state})
    if state == "removed":
        end_all_freezes(uow, "installation_removed")
    elif state == "active":
        read_back_installation(uow, installation.id)


def read_back_installation(uow: UnitOfWork, installation_id: int) -> None:
    """Make all checks of an installation due now, to be read back."""
    uow.session.execute(_READ_BACK, {"now": uow.now, "installation": installation_id})
    uow.wake("reconcile")
