"""Stored replies that show a secret were encrypted under the client's idempotency key alone: they are erased.

A retry of such a request is refused as if the hour for which replies with secrets are kept were over.

Revision ID: 0012
Revises: 0011
"""

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

ERASE = """
ALTER TABLE idempotency_keys NO FORCE ROW LEVEL SECURITY;
UPDATE idempotency_keys SET body = NULL WHERE secret;
ALTER TABLE idempotency_keys FORCE ROW LEVEL SECURITY
"""


def upgrade() -> None:
    op.execute(ERASE)


def downgrade() -> None:
    op.execute(ERASE)
