"""The table that is printed: a line for each fault."""

from collections.abc import Sequence
from statistics import median

from tests.faults.suite.runner import Outcome

HEADINGS = ("fault", "tried", "recovered", "median s", "worst s", "bound s", "lost", "stale")


def line(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """Return the cells of one fault's outcomes."""
    seconds = [outcome.seconds for outcome in outcomes if outcome.seconds is not None]
    return (
        outcomes[0].fault.name,
        str(len(outcomes)),
        str(sum(outcome.recovered for outcome in outcomes)),
        f"{median(seconds):.1f}" if seconds else "-",
        f"{max(seconds):.1f}" if seconds else "-",
        f"{outcomes[0].fault.within:.0f}",
        str(sum(len(outcome.lost) for outcome in outcomes)),
        str(sum(len(outcome.stale) for outcome in outcomes)),
    )


def table(lines: Sequence[tuple[str, ...]]) -> str:
    """Lay lines out under their headings, the first column to the left and the others to the right."""
    rows = [HEADINGS, *lines]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    laid = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
    return "\n".join([laid[0], "  ".join("-" * width for width in widths), *laid[1:]])


def complaints(outcome: Outcome) -> list[str]:
    """Say what went wrong in one try."""
    lines = [f"promise broken: {text}" for text in outcome.broken] + [f"lost: {text}" for text in outcome.lost]
    lines += [
        f"stale at rest: {head} shows {shown}, not {due}" for head, (shown, due) in list(outcome.stale.items())[:5]
    ]
    if outcome.seconds is None:
        lines.append(f"not right again within {outcome.fault.within:.0f} s: {outcome.unfinished}")
    return lines
