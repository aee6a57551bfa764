"""What people say about a pull request, and what it changes. Nobody can assign it or react to it here."""

from typing import Any, NamedTuple

from tools.fake_github.graph.queries import Args, commit_of, repository_of
from tools.fake_github.graph.resolvers import TYPE_OF, Context, attributes, resolver
from tools.fake_github.graph.values import CommitOf, Connection, connect
from tools.fake_github.model import changes
from tools.fake_github.model.changes import FileDifference
from tools.fake_github.model.records import PullRequest, Review

CHANGE_TYPES = {"removed": "DELETED"}
REACTIONS = ("THUMBS_UP", "THUMBS_DOWN", "LAUGH", "HOORAY", "CONFUSED", "HEART", "ROCKET", "EYES")


class ReviewOf(NamedTuple):
    """A review of a pull request."""

    pull: PullRequest
    review: Review


TYPE_OF[ReviewOf] = lambda _: "PullRequestReview"


def _empty(kind: str, *names: str) -> None:
    """Register connections that have nothing."""
    for name in names:
        resolver(kind, name)(lambda _value, args, _context: connect("items", [], args, str))


_empty("PullRequest", "assignees", "comments", "projectCards", "projectItems", "reviewRequests")
_empty("ReactionGroup", "reactors", "users")
for _name in ("milestone", "potentialMergeCommit"):
    resolver("PullRequest", _name)(lambda _pull, _args, _context: None)
resolver("PullRequest", "maintainerCanModify")(lambda _pull, _args, _context: False)


def _reactions(_value: Any, _args: Args, _context: Context) -> list[dict[str, Any]]:
    """Return a group for each kind of reaction; nobody reacts here."""
    return [{"content": content, "createdAt": None, "viewerHasReacted": False} for content in REACTIONS]


for _kind in ("PullRequest", "PullRequestReview"):
    resolver(_kind, "reactionGroups")(_reactions)


def _listed(pull: PullRequest, reviews: list[Review], args: Args) -> Connection:
    found = [ReviewOf(pull, review) for review in reviews]
    return connect("reviews", found, args, lambda each: each.review.id)


@resolver("PullRequest", "reviews")
def _reviews(pull: PullRequest, args: Args, context: Context) -> Connection:
    found = pull.reviews
    if args.get("states") is not None:
        found = [review for review in found if review.state in args["states"]]
    if args.get("author"):
        author = context.world.logins.get(args["author"].lower())
        found = [review for review in found if author and review.author_id == author.id]
    return _listed(pull, found, args)


@resolver("PullRequest", "latestReviews")
def _latest_reviews(pull: PullRequest, args: Args, _context: Context) -> Connection:
    return _listed(pull, list({review.author_id: review for review in pull.reviews}.values()), args)


@resolver("PullRequest", "latestOpinionatedReviews")
def _opinions(pull: PullRequest, args: Args, _context: Context) -> Connection:
    opinions = [review for review in pull.reviews if review.state != "COMMENTED"]
    return _listed(pull, list({review.author_id: review for review in opinions}.values()), args)


def _of_review(name: str, attribute: str) -> None:
    resolver("PullRequestReview", name)(lambda value, _args, _context: getattr(value.review, attribute))


for _name, _attribute in {
    "id": "node_id",
    "body": "body",
    "state": "state",
    "createdAt": "submitted_at",
    "submittedAt": "submitted_at",
}.items():
    _of_review(_name, _attribute)
resolver("PullRequestReview", "fullDatabaseId")(lambda value, _args, _context: str(value.review.id))
resolver("PullRequestReview", "authorAssociation")(lambda _value, _args, _context: "MEMBER")
resolver("PullRequestReview", "author")(
    lambda value, _args, context: context.world.accounts.get(value.review.author_id)
)
resolver("PullRequestReview", "pullRequest")(lambda value, _args, _context: value.pull)
resolver("PullRequestReview", "repository")(lambda value, _args, context: repository_of(context, value.pull))


@resolver("PullRequestReview", "commit")
def _reviewed(value: ReviewOf, _args: Args, context: Context) -> CommitOf | None:
    return commit_of(repository_of(context, value.pull), value.review.commit_id)


def _page(value: ReviewOf, context: Context) -> str:
    name = context.world.full_name(repository_of(context, value.pull))
    return f"/{name}/pull/{value.pull.number}#pullrequestreview-{value.review.id}"


resolver("PullRequestReview", "resourcePath")(lambda value, _args, context: _page(value, context))
resolver("PullRequestReview", "url")(lambda value, _args, context: f"{context.github.base_url}{_page(value, context)}")


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
    """Register the number of added or deleted lines, of a file and of a pull request."""
    resolver("PullRequestChangedFile", name)(lambda each, _args, _context: each.counts[place])
    resolver("PullRequest", name)(
        lambda pull, _args, context: sum(each.counts[place] for each in _differences(pull, context))
    )


_counted("additions", 0)
_counted("deletions", 1)
