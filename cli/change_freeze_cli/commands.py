"""The commands. Exit codes: 0 done or open, 1 refused or frozen, 2 wrong usage, 3 it cannot be found out."""

from collections.abc import Sequence
from typing import Any

import click

from change_freeze_cli import __version__, views
from change_freeze_cli.api import Api, checked_secret, segment
from change_freeze_cli.arguments import ends, moment, pages, printing, run, scope_of, targets
from change_freeze_cli.errors import REFUSED, RefusedError, UnclearError
from change_freeze_cli.rule_commands import rules
from change_freeze_cli.schedule_commands import schedules
from change_freeze_cli.session import Session
from change_freeze_cli.sign_in import sign_in

FREEZE_PREFIX = "frz_"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="freeze")
@printing
def main() -> None:
    """Freeze merging on branches, and allow it again.

    FREEZE_URL is the address of the service (default: that of the last sign-in), FREEZE_KEY an API key, which takes
    precedence over a sign-in.
    """


main.add_command(rules)
main.add_command(schedules)


@main.command()
@click.option("--url", help="The address of the service; default: FREEZE_URL, or the last one.")
@run
def login(session: Session, url: str | None) -> None:
    """Sign in with the browser, on this device or another."""
    api = session.unsigned_api(url)
    token = checked_secret(sign_in(api, session.note), "The session token")
    kept = session.store.save(api.url, token)
    session.note(f"Signed in at {api.url}; the {'keyring' if kept == 'keyring' else 'file'} keeps it.")


@main.command()
@run
def logout(session: Session) -> None:
    """End the sign-in, here and at the service."""
    url = session.url()
    token = session.store.token(url)
    if token is None:
        session.note(f"You are not signed in at {url}.")
        return
    session.store.forget(url)
    try:
        answer = Api(url, token, session.sleep).send("POST", "/api/auth/sign-out")
    except UnclearError as error:
        raise UnclearError(f"Signed out here only: {error.message}") from None
    if answer.status >= 500 or answer.status == 429:
        raise UnclearError(f"Signed out here only: the service answers with {answer.status}.")
    session.note(f"Signed out at {url}.")


@main.command()
@click.argument("repository", required=False, metavar="[OWNER/REPO]")
@click.option("-b", "--branch", help="One branch; without it any frozen branch of the repository counts.")
@click.option("--exit-code", is_flag=True, help="Exit with 0 if open, 1 if frozen, 3 if that cannot be found out.")
@run
@click.pass_context
def state(ctx: click.Context, session: Session, repository: str | None, branch: str | None, *, exit_code: bool) -> None:
    """Show whether a repository, a branch or anything is frozen."""
    if branch and not repository:
        raise click.UsageError("A branch needs its repository.")
    query = {"repo": repository, "branch": branch} if repository else {"organization": "current"}
    try:
        answer = session.api().get("/v1/freeze-state", **query)
    except RefusedError as error:
        if exit_code:
            raise UnclearError(error.message) from None
        raise
    frozen = answer.json.get("frozen")
    if answer.status != 200 or not isinstance(frozen, bool):
        raise UnclearError("The answer does not say whether it is frozen.")
    session.show(answer, lambda: views.state(answer.json, session.time))
    if exit_code and frozen:
        ctx.exit(REFUSED)


@main.command("list")
@click.option("--ended", "wanted", flag_value="ended", help="Freezes that have ended.")
@click.option("--any", "wanted", flag_value="any", help="Freezes in force and ended ones.")
@click.option("--repo", help="Only freezes that cover this repository.")
@pages
@run
def list_freezes(session: Session, wanted: str | None, repo: str | None, page: dict[str, Any]) -> None:
    """List the freezes in force."""
    state = {"ended": "ended", "any": None}.get(wanted or "", "in_force")
    answer = session.api().get("/v1/freezes", state=state, repo=repo, **page)
    session.show_page(answer, views.freezes(answer.json, session.time), "No freezes.")


@main.command("targets")
@click.argument("freeze_id")
@click.option("--state", help="Only branches whose checks are in this state, such as failed.")
@pages
@run
def list_targets(session: Session, freeze_id: str, state: str | None, page: dict[str, Any]) -> None:
    """List the branches of a freeze, and whether each is blocked."""
    answer = session.api().get(f"/v1/freezes/{segment(freeze_id)}/targets", state=state, **page)
    session.show_page(answer, views.freeze_targets(answer.json, session.time), "No branches.")


@main.command()
@targets
@run
def preview(session: Session, names: Sequence[str], branches: Sequence[str], *, everything: bool) -> None:
    """Show what a freeze would cover, without freezing anything."""
    scope = scope_of(names, branches, everything=everything)
    answer = session.api().post("/v1/scope/preview", {"scope": scope})
    session.show(answer, lambda: views.covered(answer.json))


@main.command()
@targets
@click.option("-r", "--reason", required=True, help="Why; it is shown at each pull request.")
@click.option("--public-text", help="What checks in public repositories show in place of the reason.")
@click.option("--no-exceptions", is_flag=True, help="Allow no exceptions for single pull requests.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@ends()
@run
def start(
    session: Session,
    names: Sequence[str],
    branches: Sequence[str],
    reason: str,
    public_text: str | None,
    ends_at: str | None,
    **flags: bool,
) -> None:
    """Start a freeze now; its impact is shown before."""
    api = session.api()
    scope = scope_of(names, branches, everything=flags["everything"])
    impact = api.post("/v1/scope/preview", {"scope": scope}).json
    until = session.time(ends_at) if ends_at else "it is lifted"
    session.note(f"This freezes {views.scope_text(scope)}, until {until}:")
    for line in views.impact(impact):
        session.note(f"  {line}")
    if not flags["yes"]:
        try:
            click.confirm("Start the freeze?", abort=True, err=True)
        except click.Abort:  # also where nobody can answer, such as in a pipeline
            session.note("\nNot started; --yes starts it without the question.")
            raise
    body = {"scope": scope, "reason": reason, "previewedRepoCount": impact.get("repositoryCount")}
    if public_text:
        body["publicText"] = public_text
    if ends_at:
        body["endsAt"] = ends_at
    if flags["no_exceptions"]:
        body["exceptionsAllowed"] = False
    answer = api.post("/v1/freezes", body)
    session.show(answer, lambda: views.freeze(answer.json, session.time))


@main.command()
@click.argument("freeze_id")
@ends(required=True, open_end=True)
@run
def extend(session: Session, freeze_id: str, ends_at: str | None) -> None:
    """Move the end of a freeze."""
    answer = session.api().post(f"/v1/freezes/{segment(freeze_id)}/extend", {"endsAt": ends_at})
    session.show(answer, lambda: views.freeze(answer.json, session.time))


@main.command()
@targets
@click.option("-r", "--reason", help="Why.")
@run
def lift(
    session: Session, names: Sequence[str], branches: Sequence[str], reason: str | None, *, everything: bool
) -> None:
    """Lift one freeze by its id, or all freezes inside a scope.

    An id begins with frz_. What is not frozen is left as it is.
    """
    body: dict[str, Any] = {"reason": reason} if reason else {}
    one = len(names) == 1 and names[0].startswith(FREEZE_PREFIX)
    if one and (branches or everything):
        raise click.UsageError("The id of a freeze stands alone.")
    if one:
        path = f"/v1/freezes/{segment(names[0])}/lift"
    else:
        path, body["scope"] = "/v1/freezes/lift", scope_of(names, branches, everything=everything)
    try:
        answer = session.api().post(path, body)
    except RefusedError as error:
        if error.code != "not_frozen":
            raise
        session.note("Nothing was frozen.")
        session.show_json(error.body)
        return
    shown = {**answer.json, "data": [answer.json]} if one else answer.json
    session.show(answer, lambda: views.lifted(shown))


@main.command()
@click.argument("pull")
@click.option("--repo", help="The repository of a bare number.")
@run
def why(session: Session, pull: str, repo: str | None) -> None:
    """Show why a pull request may merge or not.

    It is given by its address, as acme/web#7, or as a number with --repo.
    """
    answer = session.api().get("/v1/pulls/lookup", ref=pull, repo=repo)
    session.show(answer, lambda: views.pull_request(answer.json, session.time))


@main.command()
@click.argument("pull")
@click.option("--repo", help="The repository of a bare number.")
@click.option("-r", "--reason", required=True, help="Why it may merge in spite of the freeze.")
@click.option("--pin", is_flag=True, help="Only the commit that is its head now.")
@click.option("--request", "as_request", is_flag=True, help="Request it, for another person to decide.")
@ends()
@run
def allow(session: Session, pull: str, repo: str | None, reason: str, ends_at: str | None, **flags: bool) -> None:
    """Let one pull request merge in spite of the freeze.

    It is given by its address, as acme/web#7, or as a number with --repo. With --request another person decides.
    """
    body: dict[str, Any] = {"pullRequest": pull, "reason": reason, "pinToHead": flags["pin"]}
    body |= {"repo": repo} if repo else {}
    body |= {"expiresAt": ends_at} if ends_at else {}
    answer = session.api().post("/v1/exception-requests" if flags["as_request"] else "/v1/exceptions", body)
    session.show(answer, lambda: views.exceptions(answer.json, session.time))


@main.command()
@click.option("--repo", help="Only requests of this repository.")
@pages
@run
def requests(session: Session, repo: str | None, page: dict[str, Any]) -> None:
    """List the requests for exceptions that wait for a decision."""
    answer = session.api().get("/v1/exception-requests", repo=repo, **page)
    session.show_page(answer, views.exceptions(answer.json, session.time), "No requests.")


@main.command()
@click.argument("request_id")
@click.option("-r", "--reason", help="Why.")
@ends()
@run
def approve(session: Session, request_id: str, reason: str | None, ends_at: str | None) -> None:
    """Grant a request, and those that were made with it."""
    _decide(session, request_id, {"decision": "grant", "reason": reason, "expiresAt": ends_at})


@main.command()
@click.argument("request_id")
@click.option("-r", "--reason", help="Why.")
@run
def deny(session: Session, request_id: str, reason: str | None) -> None:
    """Deny a request, and those that were made with it."""
    _decide(session, request_id, {"decision": "deny", "reason": reason})


@main.command()
@click.option("--action", help="Only this action, such as freeze.started.")
@click.option("--actor", help="Only what this person or key did, by id.")
@click.option("--target", help="Only what was done to this object, by id.")
@click.option("--from", "since", callback=moment, metavar="TIME", help="From this time on.")
@click.option("--to", "before", callback=moment, metavar="TIME", help="Before this time.")
@pages
@run
def audit(session: Session, page: dict[str, Any], **given: str | None) -> None:
    """Show who did what, the newest first."""
    query = {"action": given["action"], "actorId": given["actor"], "targetId": given["target"]}
    query |= {"from": given["since"], "to": given["before"]}
    answer = session.api().get("/v1/audit", **query, **page)
    session.show_page(answer, views.audit(answer.json, session.time), "No entries.")


@main.command("doctor")
@run
@click.pass_context
def examine(ctx: click.Context, session: Session) -> None:
    """Check whether freezes really block, and say what to mend.

    Exits with 1 if not all is green.
    """
    from change_freeze_cli import doctor

    api = session.api()
    enforcement, branches = doctor.examine(api)
    session.show(enforcement, lambda: doctor.report(api, enforcement.json, branches, session.time))
    if enforcement.json.get("light") != "green":
        ctx.exit(REFUSED)


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands in a shell."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"There is no completion for {shell}.")
    click.echo(found(main, {}, "freeze", "_FREEZE_COMPLETE").source())


def _decide(session: Session, request_id: str, decision: dict[str, str | None]) -> None:
    """Decide a request, and show what came of it."""
    body = {name: value for name, value in decision.items() if value is not None}
    answer = session.api().post(f"/v1/exception-requests/{segment(request_id)}/decide", body)
    session.show(answer, lambda: views.exceptions(answer.json, session.time))
