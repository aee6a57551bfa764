"""Exporting 500,000 audit entries, beside psql that runs the same `COPY` and throws its rows away.

Alternating rounds on one database, with one API process. The client reads as fast as it can, in 64 KiB pieces. Memory
is the highest that the process had while it exported, over what it had before. Aims: at least 0.25 of psql's
throughput, at most 30 MB, and a first byte at once.
"""

import statistics
import subprocess
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psycopg
import requests
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from app.database import APP_ROLE
from models.audit import AuditEntry
from services.audit import export as exporting
from tests import factories
from tools.bench.servers import free_port, machine, process, storage, wait_for
from tools.bench.stack import scaled
from tools.embedded.postgres import installed_program

ROWS = scaled(exporting.MAX_ROWS)
ROUNDS = 3
PATH = "/v1/audit/export"
PSQL = installed_program("psql")

# As the service writes them, evenly over the last 300 days. The queue of the sealer is left out of it.
FILL = text("""
    INSERT INTO audit_entries (id, organization_id, at, action, actor, source, target, request_id, details)
    SELECT 'aud_' || lpad(n::text, 26, '0'), :organization, now() - n * interval '300 days' / :rows, 'freeze.extended',
           '{"type": "user", "id": "usr_06aq1m3k0v5t8c2n7d4e9f1g61", "name": "Ada Lovelace"}', 'dashboard',
           jsonb_build_object('type', 'freeze', 'id', 'frz_' || lpad(n::text, 26, '0'), 'name', 'Release ' || n),
           'req_' || lpad(n::text, 26, '0'),
           '{"before": {"endsAt": null}, "after": {"endsAt": "2027-01-04T08:00:00Z"}, "reason": "It takes longer"}'
    FROM generate_series(1, :rows) n
""")


@dataclass(frozen=True, slots=True)
class Export:
    """One export: seconds, those until the first byte, bytes, and the memory that the process took for it."""

    seconds: float
    first_byte: float
    size: int
    memory_mb: float


def seed(database_url: str) -> tuple[str, str]:
    """Fill the audit of one organisation; return its id, and the secret of a key."""
    engine = create_engine(database_url)
    with Session(engine) as session:
        acme = factories.organization(session, "Acme")
        organization_id = acme.id
        secret = factories.api_key(session, acme, "audit:read").secret
        session.execute(text("SET LOCAL session_replication_role = replica"))
        session.execute(FILL, {"organization": organization_id, "rows": ROWS})
        session.commit()
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE audit_entries"))
        connection.execute(text("CHECKPOINT"))
    engine.dispose()
    return organization_id, secret


def export_statement(connection: psycopg.Connection, organization_id: str) -> str:
    """Return the COPY statement that the export runs, with its values in it."""
    since = factories.now() - timedelta(days=365)
    conditions = [AuditEntry.organization_id == organization_id, AuditEntry.at >= since]
    query, values = exporting.compiled(exporting.entries(conditions))
    return psycopg.ClientCursor(connection).mogrify(f"COPY ({query}) TO STDOUT (FORMAT csv, HEADER)", values)


def copy_with_psql(database_url: str, organization_id: str) -> float:
    """Run the export's statement with psql, and return the seconds, its start included."""
    url = database_url.replace("+psycopg", "")
    with psycopg.connect(url) as connection:
        sql = export_statement(connection, organization_id)
    own = f"SET role {APP_ROLE}; SELECT set_config('app.organization_id', '{organization_id}', false) \\g /dev/null\n"
    start_time = time.perf_counter()
    subprocess.run([PSQL, "-q", url], input=f"{own}{sql};".encode(), stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start_time


def read_export(address: str, secret: str, worker: str) -> Export:
    """Read an export to its end."""
    Path(f"/proc/{worker}/clear_refs").write_text("5")  # the peak counts from now on
    before = _memory(worker, "VmRSS")
    start_time = time.perf_counter()
    headers = {"Authorization": f"Bearer {secret}"}
    with requests.get(address + PATH, headers=headers, stream=True, timeout=60) as answer:
        answer.raise_for_status()
        pieces = answer.iter_content(1 << 16)
        size = len(next(pieces))
        first_byte = time.perf_counter() - start_time
        size += sum(len(piece) for piece in pieces)
    return Export(time.perf_counter() - start_time, first_byte, size, _memory(worker, "VmHWM") - before)


def _memory(process_id: str, name: str) -> float:
    lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def main() -> None:
    """Measure and print."""
    with storage() as stores:
        organization_id, secret = seed(stores.database_url)
        port = free_port()
        arguments = ["app", "api"]
        settings = {**stores.environment, "PORT": str(port), "WEB_CONCURRENCY": "1", "LOG_LEVEL": "WARNING"}
        address = f"http://127.0.0.1:{port}"
        with process(arguments, settings) as server:
            wait_for(f"{address}/healthz", server)
            [worker] = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
            headers = {"Authorization": f"Bearer {secret}"}
            requests.get(f"{address}/v1/audit?limit=1", headers=headers, timeout=10).raise_for_status()
            copies, exports = [], []
            for _ in range(ROUNDS):
                copies.append(copy_with_psql(stores.database_url, organization_id))
                exports.append(read_export(address, secret, worker))
    report(copies, exports)


def report(copies: list[float], exports: list[Export]) -> None:
    """Print what was found."""
    rates = [ROWS / copy for copy in copies], [ROWS / export.seconds for export in exports]
    copy, export = (statistics.median(each) for each in rates)
    print(f"GET {PATH}, {ROWS} rows, {exports[0].size / 1e6:.0f} MB ({machine()})")
    print(f"  psql      {copy:8.0f} rows/s")
    print(f"  ours      {export:8.0f} rows/s, first byte after {max(one.first_byte for one in exports) * 1000:.0f} ms")
    print(f"  ours / psql {export / copy:.2f} (aim 0.25 or more)")
    print(f"  memory over idle {max(one.memory_mb for one in exports):.1f} MB at most (aim 30)")


if __name__ == "__main__":
    main()
