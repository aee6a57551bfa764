"""Sealed audit entries leave the database after an export: where each chain begins afterwards.

Only the owner of the schema can say that a range was exported. Jobs may delete what is in such a range, nothing else.

Revision ID: 0030
Revises: 0029
"""

from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

TABLE = """
CREATE TABLE audit_removals (
    organization_id TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    hash BYTEA NOT NULL,
    sealed_at TIMESTAMP WITH TIME ZONE NOT NULL,
    file_sha256 BYTEA NOT NULL,
    removed_by TEXT NOT NULL,
    recorded_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_audit_removals PRIMARY KEY (organization_id, sequence),
    CONSTRAINT fk_audit_removals_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
)
"""

# No role of the service may insert; the policy is for the owner, to whom row-level security applies as well.
DELETED = "EXISTS (SELECT FROM organizations o WHERE o.id = organization_id AND o.deleted_at IS NOT NULL)"
RIGHTS = f"""
ALTER TABLE audit_removals ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_removals FORCE ROW LEVEL SECURITY;
CREATE POLICY own_organization ON audit_removals TO change_freeze_app
    USING (organization_id = current_setting('app.organization_id', true))
    WITH CHECK (organization_id = current_setting('app.organization_id', true));
CREATE POLICY every_organization ON audit_removals TO change_freeze_worker USING (true) WITH CHECK (true);
CREATE POLICY recorded_by_the_owner ON audit_removals FOR INSERT TO PUBLIC WITH CHECK (true);
CREATE POLICY only_of_the_deleted ON audit_removals AS RESTRICTIVE FOR DELETE TO change_freeze_worker USING ({DELETED});
GRANT SELECT ON audit_removals TO change_freeze_app;
GRANT SELECT, DELETE ON audit_removals TO change_freeze_worker;
"""

OF_SEALS = """EXISTS (
    SELECT FROM audit_removals r
    WHERE r.organization_id = audit_seals.organization_id AND r.sequence >= audit_seals.sequence
)"""
OF_ENTRIES = """EXISTS (
    SELECT FROM audit_seals s
    JOIN audit_removals r ON r.organization_id = s.organization_id AND r.sequence >= s.sequence
    WHERE s.entry_id = audit_entries.id
)"""


def upgrade() -> None:
    """Add the table, and let jobs delete what it names."""
    op.execute(TABLE)
    op.execute(RIGHTS)
    for table, exported in (("audit_seals", OF_SEALS), ("audit_entries", OF_ENTRIES)):
        op.execute(f"ALTER POLICY only_of_the_deleted ON {table} USING ({DELETED} OR {exported})")
        op.execute(f"ALTER POLICY only_of_the_deleted ON {table} RENAME TO only_deleted_or_exported")


def downgrade() -> None:
    """Remove the table."""
    for table in ("audit_seals", "audit_entries"):
        op.execute(f"ALTER POLICY only_deleted_or_exported ON {table} USING ({DELETED})")
        op.execute(f"ALTER POLICY only_deleted_or_exported ON {table} RENAME TO only_of_the_deleted")
    op.execute("DROP TABLE audit_removals")
