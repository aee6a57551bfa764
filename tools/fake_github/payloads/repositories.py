"""Repositories, branches, refs, commits and files."""

from tools.fake_github.model.branches import blob_sha
from tools.fake_github.model.identifiers import commit_node_id, digest, ref_node_id
from tools.fake_github.model.records import Commit, Repository
from tools.fake_github.payloads.accounts import account_json
from tools.fake_github.payloads.view import Json, View

LINKS = {
    "archive_url": "{archive_format}{/ref}",
    "assignees_url": "assignees{/user}",
    "blobs_url": "git/blobs{/sha}",
    "branches_url": "branches{/branch}",
    "collaborators_url": "collaborators{/collaborator}",
    "comments_url": "comments{/number}",
    "commits_url": "commits{/sha}",
    "compare_url": "compare/{base}...{head}",
    "contents_url": "contents/{+path}",
    "contributors_url": "contributors",
    "deployments_url": "deployments",
    "downloads_url": "downloads",
    "events_url": "events",
    "forks_url": "forks",
    "git_commits_url": "git/commits{/sha}",
    "git_refs_url": "git/refs{/sha}",
    "git_tags_url": "git/tags{/sha}",
    "hooks_url": "hooks",
    "issue_comment_url": "issues/comments{/number}",
    "issue_events_url": "issues/events{/number}",
    "issues_url": "issues{/number}",
    "keys_url": "keys{/key_id}",
    "labels_url": "labels{/name}",
    "languages_url": "languages",
    "merges_url": "merges",
    "milestones_url": "milestones{/number}",
    "notifications_url": "notifications{?since,all,participating}",
    "pulls_url": "pulls{/number}",
    "releases_url": "releases{/id}",
    "stargazers_url": "stargazers",
    "statuses_url": "statuses/{sha}",
    "subscribers_url": "subscribers",
    "subscription_url": "subscription",
    "tags_url": "tags",
    "teams_url": "teams",
    "trees_url": "git/trees{/sha}",
}
COUNTS = {
    "forks": 0,
    "forks_count": 0,
    "stargazers_count": 0,
    "watchers": 0,
    "watchers_count": 0,
    "size": 0,
    "subscribers_count": 0,
    "network_count": 0,
}
FLAGS = {
    "has_issues": True,
    "has_projects": True,
    "has_downloads": True,
    "has_wiki": True,
    "has_pages": False,
    "has_discussions": False,
    "disabled": False,
    "allow_forking": True,
    "is_template": False,
    "web_commit_signoff_required": False,
    "allow_squash_merge": True,
    "allow_merge_commit": True,
    "allow_rebase_merge": True,
    "allow_update_branch": False,
    "fork": False,
}


def repository_url(view: View, repository: Repository) -> str:
    """Return the API address of a repository."""
    return f"{view.base}/repos/{view.world.full_name(repository)}"


def open_count(repository: Repository) -> int:
    """Count open pull requests."""
    return sum(1 for pull in repository.pulls.values() if pull.state == "open")


def repository_json(view: View, repository: Repository) -> Json:
    """Shape a repository with every field of the full one; remembered until it changes."""
    key = (
        view.base,
        repository.owner_id,
        repository.name,
        repository.default_branch,
        repository.archived,
        repository.pushed_at,
        repository.updated_at,
        repository.allow_auto_merge,
        repository.delete_branch_on_merge,
        len(repository.pulls),
    )
    found = view.repositories.get(repository.id)
    if found is None or found[0] != key:
        found = view.repositories[repository.id] = (key, _repository_json(view, repository))
    return found[1]


def _addresses(view: View, full_name: str) -> Json:
    url, page = f"{view.base}/repos/{full_name}", f"{view.base}/{full_name}"
    return {
        "html_url": page,
        "url": url,
        **{name: f"{url}/{path}" for name, path in LINKS.items()},
        "git_url": f"{page}.git",
        "ssh_url": f"git@localhost:{full_name}.git",
        "clone_url": f"{page}.git",
        "svn_url": page,
        "mirror_url": None,
        "homepage": None,
    }


def _repository_json(view: View, repository: Repository) -> Json:
    full_name, count = view.world.full_name(repository), open_count(repository)
    return {
        "id": repository.id,
        "node_id": repository.node_id,
        "name": repository.name,
        "full_name": full_name,
        "owner": account_json(view, repository.owner_id),
        "private": repository.private,
        "visibility": "private" if repository.private else "public",
        "description": repository.description,
        **_addresses(view, full_name),
        "language": None,
        "license": None,
        "topics": [],
        "default_branch": repository.default_branch,
        "archived": repository.archived,
        **COUNTS,
        **FLAGS,
        "allow_auto_merge": repository.allow_auto_merge,
        "delete_branch_on_merge": repository.delete_branch_on_merge,
        "open_issues": count,
        "open_issues_count": count,
        "pushed_at": repository.pushed_at,
        "created_at": repository.created_at,
        "updated_at": repository.updated_at,
        "permissions": {"admin": True, "maintain": True, "push": True, "triage": True, "pull": True},
    }


def minimal_repository_json(view: View, repository: Repository) -> Json:
    """Shape a repository as installation webhooks name it."""
    return {
        "id": repository.id,
        "node_id": repository.node_id,
        "name": repository.name,
        "full_name": view.world.full_name(repository),
        "private": repository.private,
    }


def git_commit_json(view: View, repository: Repository, commit: Commit) -> Json:
    """Shape a commit as the git database shows it."""
    url, page = repository_url(view, repository), f"{view.base}/{view.world.full_name(repository)}"
    author, committer = (
        {**identity_json(view, account_id), "date": commit.date}
        for account_id in (commit.author_id, commit.committer_id or commit.author_id)
    )
    tree = digest("tree", commit.sha)
    return {
        "sha": commit.sha,
        "node_id": commit_node_id(repository.id, commit.sha),
        "url": f"{url}/git/commits/{commit.sha}",
        "html_url": f"{page}/commit/{commit.sha}",
        "author": author,
        "committer": committer,
        "message": commit.message,
        "tree": {"sha": tree, "url": f"{url}/git/trees/{tree}"},
        "parents": [
            {"sha": sha, "url": f"{url}/git/commits/{sha}", "html_url": f"{page}/commit/{sha}"}
            for sha in commit.parents
        ],
        "verification": {
            "verified": commit.verified,
            "reason": "valid" if commit.verified else "unsigned",
            "signature": "-----BEGIN PGP SIGNATURE-----" if commit.verified else None,
            "payload": f"tree {tree}" if commit.verified else None,
            "verified_at": commit.date if commit.verified else None,
        },
    }


def identity_json(view: View, account_id: int) -> Json:
    """Name and address of a commit's author."""
    account = account_json(view, account_id)
    return {"name": account["login"], "email": f"{account['id']}+{account['login']}@users.noreply.localhost"}


def commit_json(view: View, repository: Repository, commit: Commit) -> Json:
    """Shape a commit as the commits API shows it."""
    url, git = repository_url(view, repository), git_commit_json(view, repository, commit)
    inner = {name: git[name] for name in ("author", "committer", "message", "tree", "verification")}
    return {
        "url": f"{url}/commits/{commit.sha}",
        "sha": commit.sha,
        "node_id": git["node_id"],
        "html_url": git["html_url"],
        "comments_url": f"{url}/commits/{commit.sha}/comments",
        "commit": {**inner, "url": git["url"], "comment_count": 0},
        "author": account_json(view, commit.author_id) if commit.known else None,
        "committer": account_json(view, commit.committer_id or commit.author_id) if commit.known else None,
        "parents": [{**parent, "url": f"{url}/commits/{parent['sha']}"} for parent in git["parents"]],
    }


def short_branch_json(view: View, repository: Repository, name: str, *, protected: bool) -> Json:
    """Shape a branch as lists show it."""
    url, sha = repository_url(view, repository), repository.branches[name]
    return {
        "name": name,
        "commit": {"sha": sha, "url": f"{url}/commits/{sha}"},
        "protected": protected,
        "protection": {
            "enabled": False,
            "required_status_checks": {"enforcement_level": "off", "contexts": [], "checks": []},
        },
        "protection_url": f"{url}/branches/{name}/protection",
    }


def branch_json(view: View, repository: Repository, name: str, *, protected: bool) -> Json:
    """Shape a branch on its own."""
    short = short_branch_json(view, repository, name, protected=protected)
    commit = repository.commits[repository.branches[name]]
    page = f"{view.base}/{view.world.full_name(repository)}/tree/{name}"
    links = {"self": f"{repository_url(view, repository)}/branches/{name}", "html": page}
    return {**short, "commit": commit_json(view, repository, commit), "_links": links}


def ref_json(view: View, repository: Repository, name: str) -> Json:
    """Shape a branch as a git reference."""
    url, sha = repository_url(view, repository), repository.branches[name]
    return {
        "ref": f"refs/heads/{name}",
        "node_id": ref_node_id(repository.id, name),
        "url": f"{url}/git/refs/heads/{name}",
        "object": {"sha": sha, "type": "commit", "url": f"{url}/git/commits/{sha}"},
    }


def content_json(
    view: View, repository: Repository, branch: str, path: str, content: str, *, whole: bool = True
) -> Json:
    """Shape a file, given its base64 content."""
    url, sha = repository_url(view, repository), blob_sha(content)
    own, git = f"{url}/contents/{path}?ref={branch}", f"{url}/git/blobs/{sha}"
    page = f"{view.base}/{view.world.full_name(repository)}/blob/{branch}/{path}"
    return {
        "name": path.rpartition("/")[2],
        "path": path,
        "sha": sha,
        "size": len(content) * 3 // 4,
        "url": own,
        "html_url": page,
        "git_url": git,
        "download_url": page,
        "type": "file",
        **({"encoding": "base64", "content": content} if whole else {}),
        "_links": {"self": own, "git": git, "html": page},
    }
