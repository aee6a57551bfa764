"""The commands about rules of exceptions."""

from typing import Any

import click

from change_freeze_cli import rule_views
from change_freeze_cli.api import segment
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
    api, rule_id = session.api(), rule
    if not rule.startswith(PREFIX):
        named = [one for one in rows_of(api.get("/v1/exception-rules", limit=100).json) if _has_name(one, rule)]
        if not named:
            raise RefusedError(f"No rule has the name {rule}.")
        rule_id = str(named[0].get("id"))
    answer = api.get(f"/v1/exception-rules/{segment(rule_id)}")
    session.show(answer, lambda: rule_views.rule(answer.json, session.time))


def _has_name(rule: Json, name: str) -> bool:
    return str(rule.get("name")).lower() == name.lower()
