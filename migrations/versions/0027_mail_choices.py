"""What members chose to get mails of, and the destination for the mails to the members of each organisation.

That destination begins at the head of the organisation's audit chain.

Revision ID: 0027
Revises: 0026
"""

from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

TABLE = """
CREATE TABLE mail_choices (
    organization_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    kinds TEXT[],
    remind_before INTEGER[] NOT NULL DEFAULT '{}',
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_mail_choices PRIMARY KEY (organization_id, user_id),
    CONSTRAINT fk_mail_choices_membership FOREIGN KEY (organization_id, user_id)
        REFERENCES memberships (organization_id, user_id) ON DELETE CASCADE
);
"""
# The role for people creates organisations, with their destination.
RIGHTS = """
ALTER TABLE mail_choices ENABLE ROW LEVEL SECURITY;
ALTER TABLE mail_choices FORCE ROW LEVEL SECURITY;
CREATE POLICY own_organization ON mail_choices TO change_freeze_app
    USING (organization_id = current_setting('app.organization_id', true))
    WITH CHECK (organization_id = current_setting('app.organization_id', true));
CREATE POLICY every_organization ON mail_choices TO change_freeze_worker USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON mail_choices TO change_freeze_app, change_freeze_worker;
CREATE POLICY created_organization ON notification_destinations TO change_freeze_identity
    USING (organization_id = current_setting('app.organization_id', true))
    WITH CHECK (organization_id = current_setting('app.organization_id', true));
GRANT SELECT, INSERT ON notification_destinations TO change_freeze_identity;
"""
DESTINATIONS = """
INSERT INTO notification_destinations (id, organization_id, channel, sequence)
SELECT o.id, o.id, 'mail', coalesce((SELECT max(s.sequence) FROM audit_seals s WHERE s.organization_id = o.id), 0)
FROM organizations o WHERE o.purged_at IS NULL;
"""


def upgrade() -> None:
    """Add the table and the destinations."""
    op.execute(TABLE)
    op.execute(RIGHTS)
    op.execute("ALTER TABLE notification_destinations NO FORCE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE organizations NO FORCE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE audit_seals NO FORCE ROW LEVEL SECURITY")
    op.execute(DESTINATIONS)
    op.execute("ALTER TABLE audit_seals FORCE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE organizations FORCE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE notification_destinations FORCE ROW LEVEL SECURITY")


def downgrade() -> None:
    """Drop the table and the destinations."""
    op.execute("ALTER TABLE notification_destinations NO FORCE ROW LEVEL SECURITY")
    op.execute("DELETE FROM notification_destinations WHERE channel = 'mail'")
    op.execute("ALTER TABLE notification_destinations FORCE ROW LEVEL SECURITY")
    op.execute("DROP POLICY created_organization ON notification_destinations")
    op.execute("REVOKE SELECT, INSERT ON notification_destinations FROM change_freeze_identity")
    op.execute("DROP TABLE mail_choices")
