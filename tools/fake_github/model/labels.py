"""Labels of repositories, and on pull requests."""

from tools.fake_github.model import pulls
from tools.fake_github.model.identifiers import node_id
from tools.fake_github.model.records import Label, PullRequest, Repository
from tools.fake_github.model.refusals import Refusal
from tools.fake_github.model.world import Actor, Event, World


def label_named(world: World, repository: Repository, name: str) -> Label:
    """Return a label of a repository, which is made if it is not there, as GitHub does."""
    found = _find(repository, name)
    if found is None:
        number, now = world.next_id(), world.now()
        found = Label(number, node_id("LA", number), name, now, now)
        repository.labels.append(found)
    return found


def add_label(world: World, actor: Actor, repository: Repository, pull: PullRequest, name: str) -> None:
    """Set a label on a pull request; nothing happens if it has it."""
    label = label_named(world, repository, name)
    if label.id in pull.label_ids:
        return
    pull.label_ids.append(label.id)
    pulls.note(world, actor, pull, "LabeledEvent", label_id=str(label.id))
    pulls.announce(world, actor, repository, pull, "labeled", label=label)


def remove_label(world: World, actor: Actor, repository: Repository, pull: PullRequest, name: str) -> None:
    """Take a label from a pull request."""
    label = label_named(world, repository, name)
    if label.id not in pull.label_ids:
        raise Refusal(404, "Label does not exist")
    pull.label_ids.remove(label.id)
    pull.updated_at = world.now()
    pulls.announce(world, actor, repository, pull, "unlabeled", label=label)


def rename_label(world: World, actor: Actor, repository: Repository, name: str, new_name: str) -> Label:
    """Rename a label: every pull request that has it keeps it, and who set it."""
    label = _find(repository, name)
    if label is None:
        raise Refusal(404, "Not Found")
    label.name, label.updated_at = new_name, world.now()
    world.emit(
        Event("label", "edited", actor.account, repository, {"label": label, "changes": {"name": {"from": name}}})
    )
    return label


def _find(repository: Repository, name: str) -> Label | None:
    return next((label for label in repository.labels if label.name.casefold() == name.casefold()), None)
