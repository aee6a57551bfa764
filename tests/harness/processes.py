"""Other processes of this machine."""

from pathlib import Path


def is_gone(process: int) -> bool:
    """True if a process has ended (one that only waits to be reaped has)."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
