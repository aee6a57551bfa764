"""Members' accounts at GitHub, second uses of refresh tokens, and public texts of freezes and schedules.

Checks of public repositories show the reasons of freezes until they are written again. Branches of public repositories
in which something is frozen are due at once, and once more when the processes of the release before have been replaced,
which would write what they wrote before.

Revision ID: 0040
Revises: 0039
"""

from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None

TABLE = """
CREATE TABLE github_links (
    organization_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    account_id BIGINT NOT NULL,
    login TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_github_links PRIMARY KEY (organization_id, user_id),
    CONSTRAINT fk_github_links_membership FOREIGN KEY (organization_id, user_id)
        REFERENCES memberships (organization_id, user_id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX uq_github_links_account_id ON github_links (organization_id, account_id);
"""
RIGHTS = """
ALTER TABLE github_links ENABLE ROW LEVEL SECURITY;
ALTER TABLE github_links FORCE ROW LEVEL SECURITY;
CREATE POLICY own_organization ON github_links TO change_freeze_app
    USING (organization_id = current_setting('app.organization_id', true))
    WITH CHECK (organization_id = current_setting('app.organization_id', true));
CREATE POLICY every_organization ON github_links TO change_freeze_worker USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON github_links TO change_freeze_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON github_links TO change_freeze_worker;
"""
REWRITE_CHECKS = """
WITH outdated AS (
    SELECT b.id FROM watched_branches b
    WHERE b.repository_id IN (
        SELECT r.id FROM repositories r
        JOIN watched_branches frozen ON frozen.repository_id = r.id
        JOIN freeze_targets t ON t.branch_id = frozen.id
        JOIN freezes f ON f.id = t.freeze_id
        WHERE NOT r.private AND t.operation = 'apply' AND f.ended_at IS NULL
    )
    ORDER BY b.id FOR NO KEY UPDATE
)
UPDATE watched_branches b
SET due_at = now(), attempts = 0, reread_at = coalesce(b.reread_at, now() + interval '10 minutes')
FROM outdated WHERE b.id = outdated.id;
"""


def upgrade() -> None:
    """Add table and columns, and have checks written again; nobody is linked yet."""
    op.execute(TABLE)
    op.execute(RIGHTS)
    op.execute("ALTER TABLE oauth_refresh_tokens ADD COLUMN reused_at TIMESTAMP WITH TIME ZONE")
    op.execute("ALTER TABLE freezes ADD COLUMN public_text TEXT")
    op.execute("ALTER TABLE schedules ADD COLUMN public_text TEXT")
    op.execute(REWRITE_CHECKS)


def downgrade() -> None:
    """Drop columns and table."""
    op.execute("ALTER TABLE schedules DROP COLUMN public_text")
    op.execute("ALTER TABLE freezes DROP COLUMN public_text")
    op.execute("ALTER TABLE oauth_refresh_tokens DROP COLUMN reused_at")
    op.execute("DROP TABLE github_links")
