"""Pull requests."""

from urllib.parse import quote

from tools.fake_github.model import changes
from tools.fake_github.model.branches import blob_sha
from tools.fake_github.model.changes import FileDifference
from tools.fake_github.model.merges import merge_state
from tools.fake_github.model.records import AutoMerge, Label, PullRequest, Repository, Review
from tools.fake_github.model.world import Actor
from tools.fake_github.payloads.accounts import GHOST, account_json
from tools.fake_github.payloads.repositories import repository_json, repository_url
from tools.fake_github.payloads.view import Json, View


def auto_merge_json(view: View, auto_merge: AutoMerge | None) -> Json | None:
    """Shape the request to merge as soon as nothing blocks."""
    if auto_merge is None:
        return None
    return {
        "enabled_by": account_json(view, auto_merge.enabled_by_id),
        "merge_method": auto_merge.merge_method,
        "commit_title": auto_merge.commit_title,
        "commit_message": auto_merge.commit_message,
    }


def _side(view: View, repository: Repository | None, ref: str, sha: str) -> Json:
    if repository is None:
        return {"label": f"unknown repository:{ref}", "ref": ref, "sha": sha, "user": None, "repo": None}
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


def label_json(view: View, repository: Repository, label: Label) -> Json:
    """Shape a label."""
    return {
        "id": label.id,
        "node_id": label.node_id,
        "url": f"{repository_url(view, repository)}/labels/{label.name}",
        "name": label.name,
        "description": None,
        "color": "ededed",
        "default": False,
        "archived_at": None,
        "archived_by": None,
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
        "labels": [label_json(view, repository, label) for label in repository.labels if label.id in pull.label_ids],
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
        "head": _side(view, view.world.head_repository(pull), pull.head_ref, pull.head_sha),
        "base": _side(view, repository, pull.base_ref, pull.base_sha),
        "author_association": "MEMBER",
        "auto_merge": auto_merge_json(view, pull.auto_merge),
        "draft": pull.draft,
    }


def pull_json(view: View, repository: Repository, pull: PullRequest) -> Json:
    """Shape a pull request on its own, and in webhooks."""
    actor = Actor(view.world.accounts.get(pull.author_id, GHOST))
    counts = [each.counts for each in changes.files_of(repository, pull)]
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
        "commits": len(changes.commits_of(repository, pull)),
        "additions": sum(added for added, _ in counts),
        "deletions": sum(deleted for _, deleted in counts),
        "changed_files": len(counts),
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


def file_json(view: View, repository: Repository, pull: PullRequest, difference: FileDifference) -> Json:
    """Shape a file that a pull request changes."""
    path = difference.path
    page, (added, deleted) = f"{view.base}/{view.world.full_name(repository)}", difference.counts
    previous = difference.previous_path
    return {
        "sha": blob_sha(difference.after or difference.before or ""),
        "filename": path,
        **({} if previous is None else {"previous_filename": previous}),
        "status": difference.status,
        "additions": added,
        "deletions": deleted,
        "changes": added + deleted,
        "blob_url": f"{page}/blob/{pull.head_sha}/{path}",
        "raw_url": f"{page}/raw/{pull.head_sha}/{path}",
        "contents_url": f"{repository_url(view, repository)}/contents/{quote(path)}?ref={pull.head_sha}",
        "patch": "\n".join(difference.hunks),
    }


def review_json(view: View, repository: Repository, pull: PullRequest, review: Review) -> Json:
    """Shape a review."""
    url = f"{repository_url(view, repository)}/pulls/{pull.number}"
    page = f"{view.base}/{view.world.full_name(repository)}/pull/{pull.number}#pullrequestreview-{review.id}"
    return {
        "id": review.id,
        "node_id": review.node_id,
        "user": account_json(view, review.author_id),
        "body": review.body,
        "state": review.state,
        "html_url": page,
        "pull_request_url": url,
        "author_association": "MEMBER",
        "_links": {"html": {"href": page}, "pull_request": {"href": url}},
        "submitted_at": review.submitted_at,
        "commit_id": review.commit_id,
    }
