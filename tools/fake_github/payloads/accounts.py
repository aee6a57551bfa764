"""Accounts and Apps."""

from tools.fake_github.model.installations import EVENTS, PERMISSIONS, client_id_of
from tools.fake_github.model.records import Account, App, Installation
from tools.fake_github.payloads.view import Json, View

GHOST = Account(10137, "MDQ6VXNlcjEwMTM3", "ghost", "User", created_at="2008-05-13T06:14:25Z")
LINKS = {
    "followers_url": "followers",
    "following_url": "following{/other_user}",
    "gists_url": "gists{/gist_id}",
    "starred_url": "starred{/owner}{/repo}",
    "subscriptions_url": "subscriptions",
    "organizations_url": "orgs",
    "repos_url": "repos",
    "events_url": "events{/privacy}",
    "received_events_url": "received_events",
}

PROFILE = (
    "name",
    "company",
    "blog",
    "location",
    "email",
    "notification_email",
    "hireable",
    "bio",
    "twitter_username",
)
COUNTS = (
    "public_repos",
    "public_gists",
    "followers",
    "following",
    "private_gists",
    "total_private_repos",
    "owned_private_repos",
    "disk_usage",
    "collaborators",
)


def account_json(view: View, account_id: int) -> Json:
    """Shape an account as the API's "simple user"."""
    account = view.world.accounts.get(account_id, GHOST)
    key = (account.id, account.login, view.base)
    found = view.accounts.get(key)
    if found is None:
        url = f"{view.base}/users/{account.login}"
        found = view.accounts[key] = {
            "login": account.login,
            "id": account.id,
            "node_id": account.node_id,
            "avatar_url": f"{view.base}/avatars/u/{account.id}?v=4",
            "gravatar_id": "",
            "url": url,
            "html_url": f"{view.base}/{account.login}",
            **{name: f"{url}/{path}" for name, path in LINKS.items()},
            "type": account.type,
            "user_view_type": "public",
            "site_admin": False,
        }
    return found


def organization_json(view: View, account: Account) -> Json:
    """Shape an organisation as webhooks and lists do."""
    url = f"{view.base}/orgs/{account.login}"
    return {
        "login": account.login,
        "id": account.id,
        "node_id": account.node_id,
        "url": url,
        "repos_url": f"{url}/repos",
        "events_url": f"{url}/events",
        "hooks_url": f"{url}/hooks",
        "issues_url": f"{url}/issues",
        "members_url": f"{url}/members{{/member}}",
        "public_members_url": f"{url}/public_members{{/member}}",
        "avatar_url": f"{view.base}/avatars/u/{account.id}?v=4",
        "description": None,
    }


def full_organization_json(view: View, account: Account) -> Json:
    """Shape an organisation on its own."""
    return {
        **organization_json(view, account),
        "name": account.login,
        "html_url": f"{view.base}/{account.login}",
        "type": "Organization",
        "public_repos": 0,
        "public_gists": 0,
        "followers": 0,
        "following": 0,
        "has_organization_projects": True,
        "has_repository_projects": True,
        "created_at": account.created_at,
        "updated_at": account.created_at,
        "archived_at": None,
    }


def person_json(view: View, account: Account) -> Json:
    """Shape a person as they see themselves."""
    return {
        **account_json(view, account.id),
        "user_view_type": "private",
        **dict.fromkeys(PROFILE),
        **dict.fromkeys(COUNTS, 0),
        "two_factor_authentication": True,
        "plan": {"name": "free", "space": 0, "private_repos": 0, "collaborators": 0},
        "created_at": account.created_at,
        "updated_at": account.created_at,
    }


def team_json(view: View, organization: Account, number: int, slug: str) -> Json:
    """Shape a team of an organisation."""
    url = f"{view.base}/organizations/{organization.id}/team/{number}"
    return {
        "id": number,
        "node_id": f"T_{number}",
        "name": slug,
        "slug": slug,
        "description": None,
        "privacy": "closed",
        "notification_setting": "notifications_enabled",
        "url": url,
        "html_url": f"{view.base}/orgs/{organization.login}/teams/{slug}",
        "members_url": f"{url}/members{{/member}}",
        "repositories_url": f"{url}/repos",
        "permission": "pull",
        "type": "organization",
        "organization_id": organization.id,
        "parent": None,
    }


def collaborator_json(view: View, account: Account, role: str, permissions: dict[str, bool]) -> Json:
    """Shape a person with what they may do in a repository."""
    return {**account_json(view, account.id), "permissions": permissions, "role_name": role}


def app_json(view: View, app: App) -> Json:
    """Shape an App."""
    return {
        "id": app.id,
        "client_id": client_id_of(app.id),
        "slug": app.slug,
        "node_id": app.node_id,
        "owner": account_json(view, app.owner_id),
        "name": app.name,
        "description": "",
        "external_url": f"{view.base}/apps/{app.slug}",
        "html_url": f"{view.base}/apps/{app.slug}",
        "created_at": app.created_at,
        "updated_at": app.created_at,
        "permissions": dict(PERMISSIONS if app.permissions is None else app.permissions),
        "events": list(EVENTS if app.events is None else app.events),
    }


def installation_json(view: View, installation: Installation) -> Json:
    """Shape an installation."""
    app, url = view.app(installation), f"{view.base}/app/installations/{installation.id}"
    account = account_json(view, installation.account_id)
    return {
        "id": installation.id,
        "client_id": client_id_of(app.id),
        "account": account,
        "repository_selection": installation.repository_selection,
        "access_tokens_url": f"{url}/access_tokens",
        "repositories_url": f"{view.base}/installation/repositories",
        "html_url": f"{view.base}/organizations/{account['login']}/settings/installations/{installation.id}",
        "app_id": app.id,
        "app_slug": app.slug,
        "target_id": installation.account_id,
        "target_type": account["type"],
        "permissions": installation.permissions,
        "events": installation.events,
        "created_at": installation.created_at,
        "updated_at": installation.updated_at,
        "single_file_name": None,
        "has_multiple_single_files": False,
        "single_file_paths": [],
        "suspended_by": account if installation.suspended_at else None,
        "suspended_at": installation.suspended_at,
    }
