"""The first schema, in the files of `migrations/first_schema/`.

It is what the revisions up to 0043 made, and has the number of the last of them: a database of 1.0.0 needs nothing.

Revision ID: 0043
Revises: nothing
"""

from pathlib import Path

from alembic import op

revision = "0043"
down_revision = None
branch_labels = None
depends_on = None

FILES = Path(__file__).parents[1] / "first_schema"


def upgrade() -> None:
    for file in sorted(FILES.glob("*.sql")):
        op.execute(file.read_text())


def downgrade() -> None:
    raise NotImplementedError("There is nothing before the first schema: drop the database.")
