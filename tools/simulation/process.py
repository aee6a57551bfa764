"""A simulation as a process of its own: served until a signal, with its state in a file."""

import argparse
import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
from starlette.types import ASGIApp

from tools.simulation.server import make_server

SAVE_INTERVAL = 3.0
"""Seconds between two savings of the state."""


def argument_parser(module: str, name: str) -> argparse.ArgumentParser:
    """Return a parser of what every simulation takes: where it listens, and where its state is kept."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=f"A simulated {name} for development.")
    parser.add_argument("--port", type=int, required=True, help="port to listen on; 0 takes a free one and prints it")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: loopback only)")
    parser.add_argument(
        "--state", type=Path, help="file that keeps the state, so that a second start has the same data"
    )
    return parser


async def serve_until_stopped(
    application: ASGIApp,
    listener: socket.socket,
    save: Callable[[], None],
    *,
    advance: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM or SIGINT; save now and then, after calling `advance`, and at the end."""
    server = make_server(application)

    def stop() -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    saving = asyncio.create_task(_save_repeatedly(save, advance))
    try:
        await server.serve([listener])
    finally:
        saving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await saving
        save()


async def _save_repeatedly(save: Callable[[], None], advance: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(SAVE_INTERVAL)
        advance()
        try:
            await asyncio.to_thread(save)
        except OSError as error:
            print(f"the state was not saved: {error}", file=sys.stderr, flush=True)


def read_state(path: Path, version: int) -> dict[str, Any] | None:
    """Return the state of a former process; None if there is no file, or one of another version."""
    if not path.exists():
        return None
    state: dict[str, Any] = orjson.loads(path.read_bytes())
    return state if state["version"] == version else None


def replace_file(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read: a neighbour first, then renamed over it."""
    neighbour = path.with_name(path.name + ".new")
    neighbour.write_bytes(content)
    neighbour.chmod(0o600)
    neighbour.replace(path)
