"""GitHub's page of a pull request: its checks with their texts and buttons, and the box that merges it.

The person is who opens the other pages too. What they press does what the API does for them. It looks as much like
GitHub's page as an engineer needs to see what the service says there: `tools/fake_github/README.md` has its address.
"""

import re
from html import escape
from urllib.parse import parse_qs

from markdown_it import MarkdownIt

from tools.fake_github.github import FakeGitHub
from tools.fake_github.model.checks import request_action
from tools.fake_github.model.merges import merge, refuse_merge
from tools.fake_github.model.records import CheckRun, PullRequest, Repository
from tools.fake_github.model.refusals import Refusal, not_found
from tools.fake_github.model.world import Actor
from tools.simulation.answers import Answer
from tools.simulation.wire import Incoming

PAGE = re.compile(r"/(?P<full_name>[^/]+/[^/]+)/pull/(?P<number>\d{1,9})(/checks)?")
_HEADERS = {"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store"}
_STYLE = (
    "body{font:14px/1.5 system-ui,sans-serif;max-width:60rem;margin:1.5rem auto;padding:0 1rem;color:#1f2328}"
    "h1{font-size:1.6rem;font-weight:400;margin:0}h1 span,.facts{color:#59636e}"
    ".state{display:inline-block;padding:.2rem .8rem;border-radius:2rem;color:#fff;background:#1f883d}"
    ".closed{background:#8250df}.box{border:1px solid #d1d9e0;border-radius:6px;margin:1rem 0}"
    ".box>*{padding:.7rem 1rem;margin:0;border-top:1px solid #d1d9e0}.box>:first-child{border:0}"
    ".bad{color:#cf222e}.good{color:#1a7f37}.wait{color:#9a6700}summary{cursor:pointer}"
    "button{font:inherit;font-weight:600;padding:.3rem .9rem;border:1px solid #d1d9e0;border-radius:6px}"
    "button.merge{color:#fff;background:#1f883d}button:disabled{opacity:.6}"
    "code{background:#eff1f3;padding:.1rem .3rem;border-radius:4px}"
)
_MARKS = {"success": ("good", "✓"), "failure": ("bad", "✗"), "action_required": ("bad", "!"), None: ("wait", "●")}


def pull_page(github: FakeGitHub, incoming: Incoming, full_name: str, number: int) -> Answer:
    """Show a pull request, or do what was pressed there and show it again."""
    try:
        repository = github.world.find_repository(full_name)
        pull = repository.pulls.get(number) if repository else None
        if repository is None or pull is None:
            raise not_found()
        said = _press(github, repository, pull, incoming) if incoming.method == "POST" else ""
    except Refusal as refusal:
        return Answer(refusal.status, _page("Not possible", f"<p class=bad>{escape(refusal.message)}</p>"), _HEADERS)
    if incoming.method == "POST" and not said:
        return Answer(303, b"", {"Location": incoming.path})
    return Answer(200, _show(github, repository, pull, said), _HEADERS)


def _press(github: FakeGitHub, repository: Repository, pull: PullRequest, incoming: Incoming) -> str:
    """Merge, or press a button of a check; return why it was refused."""
    sent = {name: values[-1] for name, values in parse_qs(incoming.raw.decode("utf-8", "replace")).items()}
    actor = Actor(github.oauth.visitor)
    try:
        if sent.get("do") == "merge":
            merge(github.world, actor, repository, pull)
        elif run := github.world.runs.get(int(sent.get("run", "0") or 0)):
            request_action(github.world, actor, repository, run, sent.get("identifier", ""))
    except (Refusal, ValueError) as refused:
        return refused.message if isinstance(refused, Refusal) else "This button is not known."
    return ""


def _show(github: FakeGitHub, repository: Repository, pull: PullRequest, said: str) -> bytes:
    world = github.world
    suites = world.suites_on.get((repository.id, pull.head_sha), {}).values()
    newest = {run.name: run for suite in suites for run in world.runs_in[suite.id]}
    state = "Merged" if pull.merged_at else "Closed" if pull.state == "closed" else "Draft" if pull.draft else "Open"
    author = world.accounts[pull.author_id].login
    kind = "" if state == "Open" else "closed"
    proposal = f"wants to merge <code>{escape(pull.head_ref)}</code> into <code>{escape(pull.base_ref)}</code>"
    head = f"<span class=facts>{pull.head_sha[:7]}</span>"
    parts = [
        f"<p><code>{escape(world.full_name(repository))}</code></p>",
        f"<h1>{escape(pull.title)} <span>#{pull.number}</span></h1>",
        f"<p><span class='state {kind}'>{state}</span> <b>{escape(author)}</b> {proposal} {head}</p>",
        f"<p class=bad role=alert>{escape(said)}</p>" if said else "",
        "<div class=box><p><b>Checks</b></p>",
        *(_check(run) for _, run in sorted(newest.items())),
        "" if newest else "<p class=facts>No checks.</p>",
        "</div>",
        _merge_box(github, repository, pull) if pull.state == "open" else "",
    ]
    return _page(f"{pull.title} · Pull Request #{pull.number}", "".join(parts))


def _check(run: CheckRun) -> str:
    """Return a check: its mark, title, texts, buttons, and where its details are."""
    kind, mark = _MARKS.get(run.conclusion if run.status == "completed" else None, ("facts", "○"))
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    texts = "".join(str(markdown.render(run.output[name])) for name in ("summary", "text") if run.output.get(name))
    buttons = "".join(
        f"<button name=identifier value='{escape(each['identifier'])}' title='{escape(each['description'])}'>"
        f"{escape(each['label'])}</button> "
        for each in run.actions
    )
    details = f" · <a href='{escape(run.details_url)}'>Details</a>" if run.details_url else ""
    title = escape(str(run.output.get("title") or run.conclusion or run.status))
    said = f"<span class={kind}>{mark}</span> <b>{escape(run.name)}</b> <span class=facts>{title}</span>{details}"
    form = f"<form method=post><input type=hidden name=run value={run.id}>{buttons}</form>"
    return f"<details id='run-{run.id}'><summary>{said}</summary>{texts}{form}</details>"


def _merge_box(github: FakeGitHub, repository: Repository, pull: PullRequest) -> str:
    """Return the box that merges, or says why it does not."""
    try:
        refuse_merge(github.world, Actor(github.oauth.visitor), repository, pull)
    except Refusal as refusal:
        why = "".join(f"<li>{escape(line)}</li>" for line in refusal.message.splitlines() if line)
        says, off = f"<p class=bad><b>✗ Merging is blocked</b></p><ul class=facts>{why}</ul>", " disabled"
    else:
        says, off = "<p class=good><b>✓ This branch has no conflicts with the base branch</b></p>", ""
    button = f"<form method=post><button class=merge name=do value=merge{off}>Merge pull request</button></form>"
    return f"<div class=box id=merge>{says}{button}</div>"


def _page(title: str, content: str) -> bytes:
    head = f"<meta charset=utf-8><meta name=viewport content='width=device-width'><title>{escape(title)}</title>"
    return f"<!doctype html><html lang=en>{head}<style>{_STYLE}</style><main>{content}</main></html>".encode()
