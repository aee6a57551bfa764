"""Where the servers of tests keep their files."""

import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ENOUGH_MEMORY = 2**31
"""Free bytes from which on servers keep their files in memory: two workers use a quarter of that."""


def make_server_directory(name: str) -> Path:
    """Make a directory that other accounts can enter, in memory where possible.

    PostgreSQL creates 300 files for each database, which takes a disk up to a third of a second.
    """
    in_memory = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ENOUGH_MEMORY
    directory = Path(tempfile.mkdtemp(prefix=f"change-freeze-{name}-", dir=MEMORY if in_memory else "/tmp"))
    directory.chmod(0o711)
    return directory
