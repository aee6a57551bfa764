"""Archives: files with the oldest sealed entries of an organisation, from which its chain can be verified.

JSON Lines. The first line has the organisation and the position at which the range begins, each further one an entry
with its seal, and the last one the position of the end: a file that was cut off is not taken for a whole one.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from sqlalchemy import func, select, text

from models.audit import AuditSeal
from rules.audit.hash_chain import canonical, canonical_json, next_hash
from rules.billing.plans import PLANS
from services.audit.verification import NO_TIMEOUT, ROWS_PER_FETCH, Position, start_of_chain
from services.core.unit_of_work import UnitOfWork

FORMAT = "change-freeze audit archive 1"
RETENTION = timedelta(days=max(plan.audit_retention_days for plan in PLANS.values()))
"""The longest of any plan: what is younger can be shown, and stays."""
_RANGE = text("""
    SELECT s.sequence, s.hash, s.sealed_at, e.id, e.organization_id, e.at, e.action, e.actor, e.source, e.target,
           e.request_id, e.details
    FROM audit_seals s JOIN audit_entries e ON e.id = s.entry_id
    WHERE s.organization_id = :organization AND s.sequence > :after AND s.sequence <= :last ORDER BY s.sequence
""")


class ArchiveError(Exception):
    """The entries cannot be exported or removed; the message says why."""


@dataclass(frozen=True, slots=True)
class Archive:
    """What a valid archive contains: the seals behind `start`, as far as `last`."""

    organization_id: str
    start: Position
    last: Position
    digest: bytes
    """SHA-256 of the file."""


def last_removable(uow: UnitOfWork, organization_id: str) -> int:
    """Return the number of the last seal that is older than any plan shows and is not the newest one; 0 if none is.

    The newest one stays: sealing and the destinations of notifications continue from it.
    """
    of_organization = AuditSeal.organization_id == organization_id
    newest = select(func.max(AuditSeal.sequence)).where(of_organization).scalar_subquery()
    query = select(func.max(AuditSeal.sequence)).where(
        of_organization, AuditSeal.sealed_at < uow.now - RETENTION, AuditSeal.sequence < newest
    )
    return uow.session.scalar(query) or 0


def write_archive(uow: UnitOfWork, organization_id: str, path: Path) -> Archive:
    """Write all entries that may be removed to a new file, and return what was read from it again.

    Raise ArchiveError if there are none, if the file exists, or if an entry does not match its seal.
    """
    if path.exists():
        raise ArchiveError(f"{path} exists.")
    uow.session.execute(NO_TIMEOUT)
    start, last = start_of_chain(uow, organization_id), last_removable(uow, organization_id)
    if last <= start.sequence:
        raise ArchiveError(f"No sealed entry is older than {RETENTION.days} days, the longest retention of any plan.")
    values = {"organization": organization_id, "after": start.sequence, "last": last}
    unfinished = path.with_name(f"{path.name}.unfinished")
    with unfinished.open("wb") as file:
        file.write(_line({"format": FORMAT, "organizationId": organization_id, "start": _to_json(start)}))
        rows = uow.session.execute(_RANGE, values, execution_options={"yield_per": ROWS_PER_FETCH})
        for row in rows:
            entry = json.loads(canonical(row._asdict()))
            end = Position(row.sequence, row.hash, row.sealed_at)
            file.write(_line({"entry": entry, "seal": _to_json(end)}))
        file.write(_line({"end": _to_json(end)}))
        file.flush()
        os.fsync(file.fileno())
    archive = read_archive(unfinished)
    unfinished.rename(path)
    return archive


def read_archive(path: Path) -> Archive:
    """Verify an archive by itself and return its range. Raise ArchiveError if it is not valid, and OSError."""
    digest = sha256()
    with path.open("rb") as file:
        lines = _lines(file, digest)
        head = next(lines, {})
        if head.get("format") != FORMAT:
            raise ArchiveError(f"{path} is not an archive of audit entries.")
        try:
            start = _position(head["start"])
            last = _verify_lines(lines, head["organizationId"], start)
        except (KeyError, TypeError, ValueError) as error:
            raise ArchiveError(f"{path} is malformed: {error!r}.") from None
    return Archive(head["organizationId"], start, last, digest.digest())


def _verify_lines(lines: Iterator[Mapping[str, Any]], organization_id: str, start: Position) -> Position:
    """Return the last position of the lines that follow the head. Raise ArchiveError."""
    last = start
    for line in lines:
        if "end" in line:
            if _position(line["end"]) != last or next(lines, None) is not None:
                raise ArchiveError(f"The file does not end with seal {last.sequence}, as its last line should say.")
            return last
        seal, entry = _position(line["seal"]), line["entry"]
        if seal.sequence != last.sequence + 1:
            raise ArchiveError(f"The file has a gap: seal {seal.sequence} follows seal {last.sequence}.")
        if entry["organizationId"] != organization_id or seal.hash != next_hash(last.hash, canonical_json(entry)):
            raise ArchiveError(
                f"The file does not verify: seal {seal.sequence} of {entry['id']} does not match its entry."
            )
        last = seal
    raise ArchiveError(f"The file was cut off after seal {last.sequence}.")


def _lines(file: Any, digest: Any) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(file, 1):
        digest.update(line)
        try:
            read = json.loads(line)
        except ValueError:
            read = None
        if not isinstance(read, dict):
            raise ArchiveError(f"Line {number} of the file is not a JSON object.")
        yield read


def _line(value: Mapping[str, Any]) -> bytes:
    return canonical_json(value) + b"\n"


def _to_json(position: Position) -> dict[str, Any]:
    return {
        "sequence": position.sequence,
        "hash": position.hash.hex(),
        "sealedAt": position.sealed_at.isoformat(),
    }


def _position(value: Mapping[str, Any]) -> Position:
    return Position(int(value["sequence"]), bytes.fromhex(value["hash"]), datetime.fromisoformat(value["sealedAt"]))
