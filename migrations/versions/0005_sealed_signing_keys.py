"""The private halves of signing keys are sealed. Those written before only verify, until their tokens have aged out.

Revision ID: 0005
Revises: 0004
"""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE signing_keys ADD COLUMN sealed_private_key BYTEA")
    op.execute("UPDATE signing_keys SET retired_at = coalesce(retired_at, now())")
    op.execute("ALTER TABLE signing_keys DROP COLUMN private_key")


def downgrade() -> None:
    op.execute("UPDATE signing_keys SET retired_at = coalesce(retired_at, now()), active_from = NULL")
    op.execute("ALTER TABLE signing_keys ADD COLUMN private_key TEXT NOT NULL DEFAULT ''")
    op.execute("ALTER TABLE signing_keys ALTER COLUMN private_key DROP DEFAULT")
    op.execute("ALTER TABLE signing_keys DROP COLUMN sealed_private_key")
