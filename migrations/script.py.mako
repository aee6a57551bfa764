"""${message.rstrip(".")}.

Revision ID: ${up_revision}
Revises: ${down_revision | comma,n}
"""

from alembic import op
${imports + "\n" if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}


def upgrade() -> None:
    ${upgrades if upgrades else "raise NotImplementedError"}


def downgrade() -> None:
    ${downgrades if downgrades else "raise NotImplementedError"}
