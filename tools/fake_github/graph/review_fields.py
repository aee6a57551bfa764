"""What people say about a pull request, and what it changes."""

from typing import NamedTuple

from tools.fake_github.graph.queries import Args, commit_of, repository_of
from tools.fake_github.graph.resolvers import TYPE_OF, Context, attributes, resolver
from tools.fake_github.graph.values import CommitOf, Connection, connect
from tools.fake_github.model import changes
from tools.fake_github.model.changes import FileDifference
from tools.fake_github.model.records import PullRequest, Review

CHANGE_TYPES = {"removed": "DELETED"}


class ReviewOf(NamedTuple):
    """A review of a pull request."""

    pull: PullRequest
    review: Review


TYPE_OF[ReviewOf] = lambda _: "PullRequestReview"


@resolver("PullRequest", "latestOpinionatedReviews")
def _opinions(pull: PullRequest, args: Args, _context: Context) -> Connection:
    newest = {review.author_id: ReviewOf(pull, review) for review in pull.reviews if review.state != "COMMENTED"}
    return connect("latestOpinionatedReviews", list(newest.values()), args, lambda each: each.review.id)


def _of_review(name: str, attribute: str) -> None:
    resolver("PullRequestReview", name)(lambda value, _args, _context: getattr(value.review, attribute))


for _name, _attribute in {"id": "node_id", "state": "state", "submittedAt": "submitted_at"}.items():
    _of_review(_name, _attribute)
resolver("PullRequestReview", "author")(
    lambda value, _args, context: context.world.accounts.get(value.review.author_id)
)


@resolver("PullRequestReview", "commit")
def _reviewed(value: ReviewOf, _args: Args, context: Context) -> CommitOf | None:
    return commit_of(repository_of(context, value.pull), value.review.commit_id)


def _differences(pull: PullRequest, context: Context) -> list[FileDifference]:
    return changes.files_of(repository_of(context, pull), pull)


@resolver("PullRequest", "files")
def _files(pull: PullRequest, args: Args, context: Context) -> Connection:
    return connect("files", _differences(pull, context), args, lambda each: each.path)


attributes("PullRequestChangedFile", path="path")
resolver("PullRequestChangedFile", "changeType")(
    lambda each, _args, _context: CHANGE_TYPES.get(each.status, each.status.upper())
)
resolver("PullRequest", "changedFiles")(lambda pull, _args, context: len(_differences(pull, context)))


def _counted(name: str, place: int) -> None:
    """Register the number of added or deleted lines of a pull request."""
    resolver("PullRequest", name)(
        lambda pull, _args, context: sum(each.counts[place] for each in _differences(pull, context))
    )


_counted("additions", 0)
_counted("deletions", 1)
