"""The process that reads one calendar: `python -m integrations.calendars.reader`, JSON in, JSON out.

It limits itself before it imports what may take long, and knows nothing that is worth taking: no environment, no
database. A calendar that it cannot take is `{"refused": "…"}`.
"""

import resource
import sys
from datetime import datetime, time
from typing import Any

import orjson

CPU_SECONDS = 6
MEMORY_BYTES = 512 * 1024 * 1024


def limit() -> None:
    """Take away everything but some time and some memory."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """Return what the parent gets."""
    from integrations.calendars.found import CalendarError, Options
    from integrations.calendars.parsing import parse
    from rules.time.wall_clock import Window

    window = asked["window"]
    options = Options(
        asked["timezone"],
        datetime.fromisoformat(asked["now"]),
        Window(time.fromisoformat(window["start"]), time.fromisoformat(window["end"]), window["days"]),
        asked["day_before"],
    )
    try:
        reading = parse(asked["text"], options)
    except CalendarError as error:
        return {"refused": str(error)}
    except (MemoryError, RecursionError):
        return {"refused": "takes more memory than there is for one"}
    return {"found": reading.found, "left_out": reading.left_out}


def main() -> None:
    """Read one calendar."""
    limit()
    sys.stdout.buffer.write(orjson.dumps(answer(orjson.loads(sys.stdin.buffer.read()))))


if __name__ == "__main__":
    main()
