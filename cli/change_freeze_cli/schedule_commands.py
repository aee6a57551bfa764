"""The commands about schedules and their windows."""

from datetime import UTC, datetime
from typing import Any

import click

from change_freeze_cli import views
from change_freeze_cli.api import Api, segment
from change_freeze_cli.arguments import as_sent, moment, pages, printing, run
from change_freeze_cli.errors import RefusedError
from change_freeze_cli.session import Session

PREFIX = "sch_"


@click.group()
@printing
def schedules() -> None:
    """Show windows of time that recur, and skip or pause them."""


@schedules.command("list")
@click.option("--repo", help="Only schedules that cover this repository.")
@pages
@run
def list_schedules(session: Session, repo: str | None, page: dict[str, Any]) -> None:
    """List the schedules, the next to start first."""
    answer = session.api().get("/v1/schedules", repo=repo, **page)
    session.show_page(answer, views.schedules(answer.json, session.time), "No schedules.")


@schedules.command("show")
@click.argument("schedule", metavar="ID_OR_NAME")
@run
def show_schedule(session: Session, schedule: str) -> None:
    """Show one schedule."""
    api = session.api()
    answer = api.get(_path(api, schedule))
    session.show(answer, lambda: views.schedule(answer.json, session.time))


@schedules.command()
@click.argument("schedule", metavar="[ID_OR_NAME]", required=False)
@click.option("--repo", help="Only windows of schedules that cover this repository.")
@click.option("--state", help="Only windows in this state: planned, active, past, skipped.")
@click.option("--from", "since", callback=moment, metavar="TIME", help="That end after this time; default: now.")
@click.option("--to", "before", callback=moment, metavar="TIME", help="That start before this time.")
@pages
@run
def occurrences(session: Session, schedule: str | None, page: dict[str, Any], **given: str | None) -> None:
    """List windows, of one schedule or of all, the earliest first."""
    api = session.api()
    query = {"scheduleId": _id(api, schedule) if schedule else None, "repo": given["repo"], "state": given["state"]}
    query |= {"from": given["since"] or as_sent(datetime.now(UTC)), "to": given["before"]}
    answer = api.get("/v1/schedules/occurrences", **query, **page)
    session.show_page(answer, views.occurrences(answer.json, session.time), "No windows.")


@schedules.command()
@click.argument("schedule", metavar="ID_OR_NAME")
@click.argument("window", metavar="[OCCURRENCE_ID]", required=False)
@run
def skip(session: Session, schedule: str, window: str | None) -> None:
    """Skip a window of a schedule: the next, or the one named."""
    api = session.api()
    path = _path(api, schedule)
    if window is None:
        coming = api.get(path).json.get("nextOccurrence")
        if not coming:
            raise RefusedError("This schedule has no planned window.")
        window = str(coming.get("id"))
    _change_window(session, api, f"{path}/occurrences/{segment(window)}/skip")


@schedules.command()
@click.argument("schedule", metavar="ID_OR_NAME")
@click.argument("window", metavar="OCCURRENCE_ID")
@run
def unskip(session: Session, schedule: str, window: str) -> None:
    """Plan a window again that was skipped."""
    api = session.api()
    _change_window(session, api, f"{_path(api, schedule)}/occurrences/{segment(window)}/unskip")


@schedules.command()
@click.argument("schedule", metavar="ID_OR_NAME")
@run
def pause(session: Session, schedule: str) -> None:
    """Start no freezes any more; one that is in force goes on."""
    _enable(session, schedule, enabled=False)


@schedules.command()
@click.argument("schedule", metavar="ID_OR_NAME")
@run
def resume(session: Session, schedule: str) -> None:
    """Start freezes again."""
    _enable(session, schedule, enabled=True)


def _enable(session: Session, schedule: str, *, enabled: bool) -> None:
    """Change whether a schedule starts freezes, and show it."""
    api = session.api()
    answer = api.patch(_path(api, schedule), {"enabled": enabled})
    session.show(answer, lambda: views.schedule(answer.json, session.time))


def _change_window(session: Session, api: Api, path: str) -> None:
    """Send a request about a window, and show it."""
    answer = api.post(path, {})
    session.show(answer, lambda: views.occurrences({"data": [answer.json]}, session.time))


def _path(api: Api, schedule: str) -> str:
    """Return the path of a schedule that is given by its id or its name."""
    return f"/v1/schedules/{segment(_id(api, schedule))}"


def _id(api: Api, schedule: str) -> str:
    """Return the id of a schedule. Raise RefusedError unless exactly one has the name."""
    if schedule.startswith(PREFIX):
        return schedule
    found = views.rows_of(api.get("/v1/schedules", name=schedule, limit=2).json)
    if len(found) != 1:
        raise RefusedError(f"{'Several schedules have' if found else 'No schedule has'} the name {schedule}.")
    return str(found[0].get("id"))
