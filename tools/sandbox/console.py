"""What the sandbox says to the person who started it."""

from contextlib import suppress


def say(text: str = "", end: str = "\n") -> None:
    """Print at once, also into a pipe; a reader that has gone away is no reason to stop badly."""
    with suppress(BrokenPipeError):
        print(text, end=end, flush=True)
