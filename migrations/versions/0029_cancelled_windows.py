"""Windows that were taken from the plan before they began, which calendars show as cancelled.

Revision ID: 0029
Revises: 0028
"""

from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

TABLE = """
CREATE TABLE cancelled_windows (
    id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    schedule_id TEXT NOT NULL,
    starts_at TIMESTAMP WITH TIME ZONE NOT NULL,
    ends_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_cancelled_windows PRIMARY KEY (id),
    CONSTRAINT fk_cancelled_windows_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id),
    CONSTRAINT fk_cancelled_windows_schedule_id FOREIGN KEY (schedule_id) REFERENCES schedules (id)
);
CREATE INDEX ix_cancelled_windows_organization_id ON cancelled_windows (organization_id, starts_at);
CREATE INDEX ix_cancelled_windows_schedule_id ON cancelled_windows (schedule_id);
CREATE INDEX ix_cancelled_windows_ends_at ON cancelled_windows (ends_at);
"""
RIGHTS = """
ALTER TABLE cancelled_windows ENABLE ROW LEVEL SECURITY;
ALTER TABLE cancelled_windows FORCE ROW LEVEL SECURITY;
CREATE POLICY own_organization ON cancelled_windows TO change_freeze_app
    USING (organization_id = current_setting('app.organization_id', true))
    WITH CHECK (organization_id = current_setting('app.organization_id', true));
CREATE POLICY every_organization ON cancelled_windows TO change_freeze_worker USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE ON cancelled_windows TO change_freeze_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON cancelled_windows TO change_freeze_worker;
"""


def upgrade() -> None:
    """Add the table."""
    op.execute(TABLE)
    op.execute(RIGHTS)


def downgrade() -> None:
    """Remove the table."""
    op.execute("DROP TABLE cancelled_windows")
