"""The previous release: its code, and the schema that it was written for."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, make_url, pool

from tests.faults.suite.processes import ROOT

PREVIOUS_RELEASE = ROOT / "migrations" / "PREVIOUS_RELEASE"
"""The commit of the release that is upgraded from, and the revision of its schema."""


@dataclass(frozen=True, slots=True)
class Release:
    """The code of a release, unpacked."""

    directory: Path

    @property
    def revision(self) -> str:
        """The revision of its schema."""
        return max(file.name.partition("_")[0] for file in self.directory.glob("migrations/versions/[0-9]*_*.py"))


def previous_release(directory: Path) -> Release | None:
    """Unpack the previous release into a directory; None if the history of this checkout does not reach it."""
    commit = PREVIOUS_RELEASE.read_text().split()[0]
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        return None
    subprocess.run(["tar", "-x", "-C", str(directory)], input=archive.stdout, check=True)
    return Release(directory)


def downgrade(database_url: str, revision: str) -> None:
    """Take a database back to a revision, as its owner."""
    configuration = Config(ROOT / "alembic.ini")
    engine = create_engine(make_url(database_url).set(drivername="postgresql+psycopg"), poolclass=pool.NullPool)
    with engine.connect() as connection:
        configuration.attributes["connection"] = connection
        command.downgrade(configuration, revision)
