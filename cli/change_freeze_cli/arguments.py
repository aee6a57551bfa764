"""What commands take: scopes, times, and how they print."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any

import click

from change_freeze_cli.session import Session

Command = Callable[..., None]
Scope = dict[str, Any]

MAX_LIMIT = 100
_PATTERN = re.compile(r"^!|\*")
_DURATION = re.compile(r"([0-9]{1,6})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Return a time as the API takes it; without an offset it is in the local zone. A callback of options."""
    if value is None:
        return None
    try:
        return as_sent(datetime.fromisoformat(value))
    except (ValueError, OverflowError):
        raise click.BadParameter("This is no time; write 2027-01-04T08:00 or 2027-01-04T08:00Z.") from None


def _end(ctx: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Return a time that is still to come as the API takes it. A callback of options."""
    at = moment(ctx, option, value)
    if at is not None and datetime.fromisoformat(at) <= datetime.now(UTC):
        raise click.BadParameter("This time is over.")
    return at


def _duration(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Return the time at the end of a duration from now on."""
    if value is None:
        return None
    found = _DURATION.fullmatch(value)
    try:
        if found:
            return as_sent(datetime.now(UTC) + timedelta(**{_UNITS[found[2]]: int(found[1])}))
    except OverflowError:
        pass
    raise click.BadParameter("This is no duration; write 90m, 2h, 3d or 1w.")


def printing(command: Command) -> Command:
    """Give a command, or a group of them, the options of how it prints."""

    def set_json(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001  Click calls it so
        ctx.ensure_object(Session).as_json |= value

    def set_utc(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001  Click calls it so
        ctx.ensure_object(Session).utc |= value

    as_json = click.option(
        "--json", is_flag=True, expose_value=False, callback=set_json, help="Print the API's object as it is."
    )
    utc = click.option(
        "--utc", is_flag=True, expose_value=False, callback=set_utc, help="Print times in UTC, not in the local zone."
    )
    return as_json(utc(command))


def run(command: Command) -> Command:
    """Give a command its session, and the options of how it prints."""
    return printing(click.make_pass_decorator(Session, ensure=True)(command))


def pages(command: Command) -> Command:
    """Give a list its options, passed as `page`."""

    @wraps(command)
    def called(*arguments: Any, limit: int, cursor: str | None, **others: Any) -> None:
        command(*arguments, page={"limit": limit, "cursor": cursor}, **others)

    limit = click.option("--limit", type=click.IntRange(1, MAX_LIMIT), default=50, show_default=True, help="How many.")
    return limit(click.option("--cursor", help="Go on where the page before ended.")(called))


def ends(*, required: bool = False, open_end: bool = False) -> Callable[[Command], Command]:
    """Give a command an end in time, passed as `ends_at`; None if there is none."""

    def decorate(command: Command) -> Command:
        """Add the options to a command, and turn them into its one argument."""

        @wraps(command)
        def called(
            *arguments: Any, until: str | None, duration: str | None, no_end: bool = False, **others: Any
        ) -> None:
            given = sum((until is not None, duration is not None, no_end))
            if given > 1 or (required and not given):
                names = "--until, --for or --no-end" if open_end else "--until or --for"
                raise click.UsageError(f"Give {'one' if required else 'at most one'} of {names}.")
            command(*arguments, ends_at=until or duration, **others)

        decorated: Command = click.option(
            "--until", callback=_end, metavar="TIME", help="When it ends, in the local zone unless it says another."
        )(
            click.option(
                "--for",
                "duration",
                callback=_duration,
                metavar="DURATION",
                help="How long from now on: 90m, 2h, 3d, 1w.",
            )(called)
        )
        if open_end:
            decorated = click.option("--no-end", is_flag=True, help="Until it is lifted.")(decorated)
        return decorated

    return decorate


def targets(command: Command) -> Command:
    """Give a command what it is about: repositories or patterns, or the whole organisation, perhaps some branches."""
    everything = click.option("--all", "everything", is_flag=True, help="The whole organisation.")
    branches = click.option("-b", "--branch", "branches", multiple=True, help="Only these branches; * is a wildcard.")
    return click.argument("names", nargs=-1, metavar="[OWNER/REPO]...")(everything(branches(command)))


def scope_of(names: Sequence[str], branches: Sequence[str], *, everything: bool) -> Scope:
    """Return the scope that names, patterns (`acme/*`, `!acme/docs`) and branches describe."""
    if everything == bool(names):
        raise click.UsageError("Name repositories (acme/web, or a pattern such as 'acme/*'), or use --all.")
    only = {"branches": [*branches]} if branches else {}
    if everything:
        return {"type": "organization", **only}
    if any(map(_PATTERN.search, names)):
        return {"type": "glob", "patterns": [*names], **only}
    if len(names) == len(branches) == 1 and not _PATTERN.search(branches[0]):
        return {"type": "branch", "repository": names[0], "branch": branches[0]}
    return {"type": "repositories", "repositories": [*names], **only}


def as_sent(at: datetime) -> str:
    """Return a time as the API takes it."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
