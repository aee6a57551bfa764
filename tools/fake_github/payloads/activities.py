"""The activity of a repository."""

from tools.fake_github.model.records import Activity
from tools.fake_github.payloads.accounts import account_json
from tools.fake_github.payloads.view import Json, View


def activity_json(view: View, activity: Activity) -> Json:
    """Shape one activity."""
    return {
        "id": activity.id,
        "node_id": activity.node_id,
        "before": activity.before,
        "after": activity.after,
        "ref": f"refs/heads/{activity.branch}",
        "timestamp": activity.timestamp,
        "activity_type": activity.how,
        "actor": account_json(view, activity.actor_id),
    }
