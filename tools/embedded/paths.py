"""The account of embedded servers, and where they keep data, sockets and binaries.

PostgreSQL refuses to run as root, so root hands the servers to an unprivileged account. That account often cannot enter
root's own directories (`/root` has mode 0700). No directory's mode is changed for it: what it cannot reach is put
elsewhere, always at the same place for the same directory, so that a second start finds it again.
"""

import hashlib
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ELSEWHERE = Path("/var/tmp")  # noqa: S108  outlives a reboot; directories in it are checked for their owner
SOCKETS = Path("/tmp")  # noqa: S108  short: a socket's path has at most 107 bytes; checked for their owner too
UNPRIVILEGED = "nobody"


@dataclass(frozen=True, slots=True)
class Account:
    """An operating-system account, by number."""

    user: int
    group: int


def server_account() -> Account | None:
    """Return the account that servers run as: an unprivileged one if we are root; None, our own, if not."""
    if os.geteuid() != 0:
        return None
    entry = pwd.getpwnam(UNPRIVILEGED)
    return Account(entry.pw_uid, entry.pw_gid)


def ourselves() -> Account:
    """Return the account of this process."""
    return Account(os.geteuid(), os.getegid())


def can_enter(account: Account | None, path: Path) -> bool:
    """Return whether `account` can enter or execute `path`, by trying it: modes alone do not say (ACLs, mounts)."""
    if account is None:
        return os.access(path, os.X_OK)
    attempt = subprocess.run(
        ["test", "-x", path], cwd="/", user=account.user, group=account.group, extra_groups=[], check=False
    )
    return attempt.returncode == 0


def data_directory(wanted: Path, account: Account | None) -> Path:
    """Return `wanted`, or its stand-in where `account` cannot reach it."""
    wanted = wanted.absolute()
    existing = next(parent for parent in wanted.parents if parent.exists())
    if can_enter(account, existing):
        return wanted
    return ELSEWHERE / f"change-freeze-{digest(wanted.parent)}" / wanted.name


def socket_directory(data: Path, account: Account | None) -> Path:
    """Make the short directory for the sockets of the server that keeps its data in `data`."""
    owner = account or ourselves()
    directory = SOCKETS / f"change-freeze-{owner.user}-{digest(data)}"
    own_directory(directory, owner, 0o700)
    return directory


def own_directory(directory: Path, owner: Account, mode: int) -> None:
    """Make `directory` with exactly this owner and mode.

    Refuse a directory of another user: in a directory open to all, its name can be guessed.
    """
    try:
        directory.mkdir(mode=mode)
    except FileExistsError:
        found = directory.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in {owner.user, os.geteuid()}:
            raise RuntimeError(f"{directory} belongs to another user; remove it and start again") from None
    directory.chmod(mode)
    if os.geteuid() == 0:
        os.chown(directory, owner.user, owner.group)


def make_parent(directory: Path) -> None:
    """Make the parent of a data directory; that of a stand-in belongs to us, and others may only pass through it."""
    if directory.parent.parent == ELSEWHERE:
        own_directory(directory.parent, ourselves(), 0o711)
    else:
        directory.parent.mkdir(parents=True, exist_ok=True)


def runnable(binary: Path, root: Path, needs: Iterable[str], name: str, account: Account | None) -> Path:
    """Return `binary`, or its place in a copy where `account` cannot execute it in the virtual environment.

    The copy holds the directories `needs` of `root`, laid out alike (a library is found relative to its binary);
    `name` carries the version, so it is made once.
    """
    if can_enter(account, binary):
        return binary
    copy = ELSEWHERE / f"change-freeze-{name}"
    if copy.exists() and copy.lstat().st_uid != os.geteuid():
        raise RuntimeError(f"{copy} belongs to another user; remove it and start again")
    if not copy.exists():
        draft = Path(tempfile.mkdtemp(prefix=f"change-freeze-{name}-", dir=ELSEWHERE))
        for directory in needs:
            shutil.copytree(root / directory, draft / directory, symlinks=True, dirs_exist_ok=True)
        draft.chmod(0o755)
        try:
            draft.rename(copy)
        except OSError:  # another process was quicker
            shutil.rmtree(draft)
    return copy / binary.relative_to(root)


def digest(path: Path) -> str:
    """Return a short name for a path: twelve hexadecimal digits."""
    return hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:12]
