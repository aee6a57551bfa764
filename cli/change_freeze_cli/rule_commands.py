"""The commands about rules of exceptions."""

import json
from typing import Any, BinaryIO

import click

from change_freeze_cli import rule_views
from change_freeze_cli.api import Answer, Api, segment
from change_freeze_cli.arguments import pages, printing, run
from change_freeze_cli.errors import RefusedError
from change_freeze_cli.session import Session
from change_freeze_cli.views import Json, rows_of

PREFIX = "exr_"


@click.group()
@printing
def rules() -> None:
    """Show the rules by which pull requests pass freezes."""


@rules.command("list")
@pages
@run
def list_rules(session: Session, page: dict[str, Any]) -> None:
    """List the rules, the newest first."""
    answer = session.api().get("/v1/exception-rules", **page)
    session.show_page(answer, rule_views.rules(answer.json, session.time), "No rules.")


@rules.command("show")
@click.argument("rule", metavar="ID_OR_NAME")
@run
def show_rule(session: Session, rule: str) -> None:
    """Show one rule, with its conditions in words."""
    answer = _get(session.api(), rule)
    session.show(answer, lambda: rule_views.rule(answer.json, session.time))


@rules.command("preview")
@click.argument("rule", metavar="ID_OR_NAME", required=False)
@click.option("--draft", type=click.File("rb"), help="A file with a draft as the API takes it; - is standard input.")
@run
def preview_rule(session: Session, rule: str | None, draft: BinaryIO | None) -> None:
    """Say which open pull requests a rule, or a draft of one, would let in now."""
    if (rule is None) == (draft is None):
        raise click.UsageError("Give a rule, or a draft with --draft.")
    api = session.api()
    given = _read(draft) if draft is not None else _get(api, str(rule)).json
    body = {name: given[name] for name in ("appliesTo", "allow") if name in given}
    answer = api.post("/v1/exception-rules/preview", body)
    session.show(answer, lambda: rule_views.preview(answer.json))


def _read(draft: BinaryIO) -> Json:
    try:
        found = json.load(draft)
    except ValueError as error:
        raise RefusedError(f"The draft is no JSON: {error}.") from None
    if not isinstance(found, dict):
        raise RefusedError("The draft is no JSON object.")
    return found


def _get(api: Api, rule: str) -> Answer:
    """Return the answer with a rule, given by its id or its name. Raise RefusedError if there is none."""
    rule_id = rule
    if not rule.startswith(PREFIX):
        named = [one for one in rows_of(api.get("/v1/exception-rules", limit=100).json) if _has_name(one, rule)]
        if not named:
            raise RefusedError(f"No rule has the name {rule}.")
        rule_id = str(named[0].get("id"))
    return api.get(f"/v1/exception-rules/{segment(rule_id)}")


def _has_name(rule: Json, name: str) -> bool:
    return str(rule.get("name")).lower() == name.lower()
