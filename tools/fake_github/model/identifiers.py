"""Node ids, commit ids and times in the forms that GitHub shows."""

import base64
import hashlib
from datetime import UTC, datetime


def node_id(prefix: str, number: int) -> str:
    """Make the opaque node id of a record: stable, unique, and different for every kind."""
    raw = base64.urlsafe_b64encode(number.to_bytes(6, "big")).decode().rstrip("=")
    return f"{prefix}_kwDO{raw}"


def commit_node_id(repository_id: int, sha: str) -> str:
    """Node id of a commit; it carries its parts, so that commits need no index."""
    return f"C_{repository_id:x}x{sha}"


def split_commit_node_id(identifier: str) -> tuple[int, str] | None:
    """Repository id and commit id of a commit's node id, or None for another kind."""
    head, separator, sha = identifier.removeprefix("C_").partition("x")
    if not identifier.startswith("C_") or not separator:
        return None
    try:
        return int(head, 16), sha
    except ValueError:
        return None


def ref_node_id(repository_id: int, branch: str) -> str:
    """Node id of a branch."""
    return f"REF_{repository_id:x}x{branch}"


def digest(*parts: object) -> str:
    """Forty hexadecimal digits made of the parts."""
    return hashlib.sha1("\0".join(map(str, parts)).encode(), usedforsecurity=False).hexdigest()


def timestamp(moment: datetime) -> str:
    """Write a moment as the API does: UTC, whole seconds, `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
