"""The activity of a repository."""

from tools.codehost.model.records import Activity
from tools.codehost.payloads.accounts import account_json
from tools.codehost.payloads.view import Json, View


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
