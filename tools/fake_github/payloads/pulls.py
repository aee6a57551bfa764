"""Pull requests."""

from tools.fake_github.model.identifiers import node_id
from tools.fake_github.model.merges import merge_state
from tools.fake_github.model.records import Account, AutoMerge, PullRequest, Repository
from tools.fake_github.model.world import Actor
from tools.fake_github.payloads.accounts import GHOST, account_json
from tools.fake_github.payloads.repositories import repository_json, repository_url
from tools.fake_github.payloads.view import Json, View


def auto_merge_json(view: View, wish: AutoMerge | None) -> Json | None:
    """Shape the wish to merge by itself."""
    if wish is None:
        return None
    return {
        "enabled_by": account_json(view, wish.enabled_by_id),
        "merge_method": wish.merge_method,
        "commit_title": wish.commit_title,
        "commit_message": wish.commit_message,
    }


def _side(view: View, repository: Repository, ref: str, sha: str) -> Json:
    owner = account_json(view, repository.owner_id)
    shown = repository_json(view, repository)
    return {"label": f"{owner['login']}:{ref}", "ref": ref, "sha": sha, "user": owner, "repo": shown}


def _links(url: str, issue: str, pull: PullRequest) -> Json:
    targets = {
        "self": url,
        "html": "",
        "issue": issue,
        "comments": f"{issue}/comments",
        "review_comments": f"{url}/comments",
        "review_comment": f"{url.rpartition('/')[0]}/comments{{/number}}",
        "commits": f"{url}/commits",
        "statuses": f"{url.rpartition('/pulls/')[0]}/statuses/{pull.head_sha}",
    }
    return {name: {"href": target} for name, target in targets.items()}


def _addresses(view: View, repository: Repository, pull: PullRequest) -> Json:
    base = repository_url(view, repository)
    url, issue = f"{base}/pulls/{pull.number}", f"{base}/issues/{pull.number}"
    page = f"{view.base}/{view.world.full_name(repository)}/pull/{pull.number}"
    links = _links(url, issue, pull)
    links["html"]["href"] = page
    named = ("commits", "review_comments", "review_comment", "comments", "statuses")
    return {
        "url": url,
        "html_url": page,
        "diff_url": f"{page}.diff",
        "patch_url": f"{page}.patch",
        "issue_url": issue,
        **{f"{name}_url": links[name]["href"] for name in named},
        "_links": links,
    }


def simple_pull_json(view: View, repository: Repository, pull: PullRequest) -> Json:
    """Shape a pull request as lists show it."""
    return {
        **_addresses(view, repository, pull),
        "id": pull.id,
        "node_id": pull.node_id,
        "number": pull.number,
        "state": pull.state,
        "locked": False,
        "active_lock_reason": None,
        "title": pull.title,
        "user": account_json(view, pull.author_id),
        "body": pull.body,
        "labels": [],
        "milestone": None,
        "created_at": pull.created_at,
        "updated_at": pull.updated_at,
        "closed_at": pull.closed_at,
        "merged_at": pull.merged_at,
        "merge_commit_sha": pull.merge_commit_sha,
        "assignee": None,
        "assignees": [],
        "requested_reviewers": [],
        "requested_teams": [],
        "head": _side(view, repository, pull.head_ref, pull.head_sha),
        "base": _side(view, repository, pull.base_ref, pull.base_sha),
        "author_association": "MEMBER",
        "auto_merge": auto_merge_json(view, pull.auto_merge),
        "draft": pull.draft,
    }


def pull_json(view: View, repository: Repository, pull: PullRequest) -> Json:
    """Shape a pull request on its own, and in webhooks."""
    actor = Actor(view.world.accounts.get(pull.author_id, GHOST))
    return {
        **simple_pull_json(view, repository, pull),
        "merged": pull.merged_at is not None,
        "mergeable": pull.mergeable,
        "rebaseable": pull.mergeable,
        "mergeable_state": merge_state(view.world, actor, repository, pull) if pull.state == "open" else "unknown",
        "merged_by": account_json(view, pull.merged_by_id) if pull.merged_by_id else None,
        "comments": 0,
        "review_comments": 0,
        "maintainer_can_modify": False,
        "commits": 1,
        "additions": 1,
        "deletions": 0,
        "changed_files": 1,
    }


def reference_json(view: View, repository: Repository, pull: PullRequest) -> Json:
    """Shape a pull request as check runs name it."""
    url = repository_url(view, repository)
    shown = {"id": repository.id, "url": url, "name": repository.name}
    return {
        "id": pull.id,
        "number": pull.number,
        "url": f"{url}/pulls/{pull.number}",
        "head": {"ref": pull.head_ref, "sha": pull.head_sha, "repo": shown},
        "base": {"ref": pull.base_ref, "sha": pull.base_sha, "repo": shown},
    }


def review_json(view: View, repository: Repository, pull: PullRequest, author: Account, state: str) -> Json:
    """Shape a review, which is not kept beyond the decision it made."""
    url = f"{repository_url(view, repository)}/pulls/{pull.number}"
    page = f"{view.base}/{view.world.full_name(repository)}/pull/{pull.number}"
    number = view.world.next_id()
    return {
        "id": number,
        "node_id": node_id("PRR", number),
        "user": account_json(view, author.id),
        "body": "",
        "state": state,
        "html_url": f"{page}#pullrequestreview-{number}",
        "pull_request_url": url,
        "author_association": "MEMBER",
        "_links": {"html": {"href": f"{page}#pullrequestreview-{number}"}, "pull_request": {"href": url}},
        "submitted_at": view.world.now(),
        "commit_id": pull.head_sha,
    }
