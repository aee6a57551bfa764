"""Destinations of notifications, and the windows that were announced to them.

Revision ID: 0021
Revises: 0020
"""

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

TABLES = """
CREATE TABLE notification_destinations (
    id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    channel TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    remind_before INTEGER[] NOT NULL DEFAULT '{}',
    reminders_since TIMESTAMP WITH TIME ZONE NOT NULL,
    due_at TIMESTAMP WITH TIME ZONE,
    attempts INTEGER NOT NULL DEFAULT 0,
    CONSTRAINT pk_notification_destinations PRIMARY KEY (id),
    CONSTRAINT fk_notification_destinations_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_notification_destinations_organization_id ON notification_destinations (organization_id);
CREATE INDEX ix_notification_destinations_due_at ON notification_destinations (due_at, id) WHERE due_at IS NOT NULL;
CREATE TABLE reminders (
    destination_id TEXT NOT NULL,
    occurrence_id TEXT NOT NULL,
    minutes INTEGER NOT NULL,
    organization_id TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_reminders PRIMARY KEY (destination_id, occurrence_id, minutes),
    CONSTRAINT fk_reminders_destination_id FOREIGN KEY (destination_id)
        REFERENCES notification_destinations (id) ON DELETE CASCADE,
    CONSTRAINT fk_reminders_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_reminders_organization_id ON reminders (organization_id);
CREATE INDEX ix_reminders_created_at ON reminders (created_at);
"""
RIGHTS = """
ALTER TABLE notification_destinations ENABLE ROW LEVEL SECURITY;
ALTER TABLE notification_destinations FORCE ROW LEVEL SECURITY;
ALTER TABLE reminders ENABLE ROW LEVEL SECURITY;
ALTER TABLE reminders FORCE ROW LEVEL SECURITY;
CREATE POLICY own_organization ON notification_destinations TO change_freeze_app
    USING (organization_id = current_setting('app.organization_id', true))
    WITH CHECK (organization_id = current_setting('app.organization_id', true));
CREATE POLICY own_organization ON reminders TO change_freeze_app
    USING (organization_id = current_setting('app.organization_id', true))
    WITH CHECK (organization_id = current_setting('app.organization_id', true));
CREATE POLICY every_organization ON notification_destinations TO change_freeze_worker USING (true) WITH CHECK (true);
CREATE POLICY every_organization ON reminders TO change_freeze_worker USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE (remind_before, reminders_since), DELETE ON notification_destinations
    TO change_freeze_app;
GRANT SELECT ON reminders TO change_freeze_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON notification_destinations, reminders TO change_freeze_worker;
"""


def upgrade() -> None:
    """Add the tables."""
    op.execute(TABLES)
    op.execute(RIGHTS)


def downgrade() -> None:
    """Drop the tables."""
    op.execute("DROP TABLE reminders, notification_destinations")
