"""Keys of the hashes of who had a trial, which outlive the SECRET_KEY from which they were derived.

Revision ID: 0033
Revises: 0032
"""

from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

TABLE = """
CREATE TABLE trial_hash_keys (
    id TEXT NOT NULL,
    encrypted_key BYTEA NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_trial_hash_keys PRIMARY KEY (id)
);
GRANT SELECT ON trial_hash_keys TO change_freeze_app;
GRANT SELECT, INSERT, UPDATE ON trial_hash_keys TO change_freeze_worker;
"""


def upgrade() -> None:
    """Add the table."""
    op.execute(TABLE)


def downgrade() -> None:
    """Remove the table."""
    op.execute("DROP TABLE trial_hash_keys")
