"""`python -m app.configuration_table` prints the table of variables, as docs/configuration.md has it."""

import sys
from datetime import timedelta
from typing import Any

from app.config import OTHER_VARIABLES, is_required, variables


def table() -> str:
    """Return the variables as a Markdown table."""
    rows = ["| variable | meaning | default |", "|---|---|---|"]
    for setting, variable in variables():
        default = "required" if is_required(setting) else _format_default(setting.default)
        rows.append(f"| `{setting.name.upper()}` | {variable.description} | {default} |")
    for name, (variable, default) in OTHER_VARIABLES.items():
        rows.append(f"| `{name}` | {variable.description} | {default} |")
    return "\n".join(rows)


def _format_default(default: Any) -> str:
    """Return a default as the text of an environment variable."""
    if isinstance(default, timedelta):
        return str(default.days or int(default.total_seconds()))
    if isinstance(default, bool):
        return str(int(default))
    return "" if default in {None, ()} else str(default)


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
