"""Labels of pull requests and their timelines in the graph."""

from functools import partial
from typing import Any, NamedTuple

from tools.fake_github.graph.queries import Args, repository_of
from tools.fake_github.graph.resolvers import TYPE_OF, Context, attributes, resolver
from tools.fake_github.graph.values import Connection, connect
from tools.fake_github.model.records import Label, PullRequest, TimelineItem


class ItemOf(NamedTuple):
    """An item of the timeline of a pull request."""

    pull: PullRequest
    item: TimelineItem


TYPE_OF[ItemOf] = lambda value: value.item.kind
TYPE_OF[Label] = lambda _: "Label"
ITEM_TYPES = {
    "LABELED_EVENT": "LabeledEvent",
    "HEAD_REF_FORCE_PUSHED_EVENT": "HeadRefForcePushedEvent",
    "BASE_REF_CHANGED_EVENT": "BaseRefChangedEvent",
    "BASE_REF_FORCE_PUSHED_EVENT": "BaseRefForcePushedEvent",
    "AUTOMATIC_BASE_CHANGE_SUCCEEDED_EVENT": "AutomaticBaseChangeSucceededEvent",
}
attributes("Label", id="node_id", name="name", createdAt="created_at", updatedAt="updated_at")


@resolver("PullRequest", "labels")
def _labels(pull: PullRequest, args: Args, context: Context) -> Connection:
    found = [label for label in repository_of(context, pull).labels if label.id in pull.label_ids]
    return connect("labels", found, args, lambda label: label.id)


@resolver("PullRequest", "timelineItems")
def _timeline(pull: PullRequest, args: Args, _context: Context) -> Connection:
    kinds = {ITEM_TYPES.get(name) for name in args.get("itemTypes") or ITEM_TYPES}
    found = [ItemOf(pull, item) for item in pull.timeline if item.kind in kinds]
    return connect("timelineItems", found, args, lambda value: value.item.id)


def _attribute(name: str, value: ItemOf, _args: Args, _context: Context) -> Any:
    return getattr(value.item, name)


for _kind in ITEM_TYPES.values():
    resolver(_kind, "id")(partial(_attribute, "node_id"))
    resolver(_kind, "createdAt")(partial(_attribute, "created_at"))
for _kind in ("LabeledEvent", "HeadRefForcePushedEvent"):
    resolver(_kind, "actor")(lambda value, _args, context: context.world.accounts.get(value.item.actor_id))


@resolver("LabeledEvent", "label")
def _label(value: ItemOf, _args: Args, context: Context) -> Any:
    labels = repository_of(context, value.pull).labels
    return next(label for label in labels if str(label.id) == value.item.label_id)
