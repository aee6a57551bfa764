"""Output for the person who started the sandbox."""

from contextlib import suppress


def say(text: str = "", end: str = "\n") -> None:
    """Print at once, also into a pipe; a closed pipe is ignored, so that the sandbox still stops in order."""
    with suppress(BrokenPipeError):
        print(text, end=end, flush=True)
