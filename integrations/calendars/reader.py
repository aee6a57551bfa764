"""The process that parses one calendar: `python -m integrations.calendars.reader`, JSON in, JSON out.

It limits its resources before it imports the libraries, and has no secrets: no environment, no database. The result for
an invalid calendar is `{"refused": "…"}`.
"""

import resource
import sys
from datetime import datetime, time
from typing import Any

import orjson

CPU_SECONDS = 6
MEMORY_BYTES = 512 * 1024 * 1024


def limit() -> None:
    """Limit CPU time and memory, and forbid files."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def handle(request: dict[str, Any]) -> dict[str, Any]:
    """Return the result for the parent process."""
    from integrations.calendars.content import CalendarError, Options
    from integrations.calendars.parsing import parse
    from rules.time.wall_clock import Window

    window = request["window"]
    options = Options(
        request["timezone"],
        datetime.fromisoformat(request["now"]),
        Window(time.fromisoformat(window["start"]), time.fromisoformat(window["end"]), window["days"]),
        request["day_before"],
        request["timezones"],
    )
    try:
        reading = parse(request["text"], options)
    except CalendarError as error:
        return {"refused": str(error)}
    except (MemoryError, RecursionError):
        return {"refused": "takes too much memory"}
    return {"found": reading.found, "skipped": reading.skipped, "name": reading.name}


def main() -> None:
    """Parse one calendar."""
    limit()
    sys.stdout.buffer.write(orjson.dumps(handle(orjson.loads(sys.stdin.buffer.read()))))


if __name__ == "__main__":
    main()
