"""How far GitHub's log of webhooks was read."""

from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, SmallInteger
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base
from models.leases import Leased


class WebhookLog(Leased, Base):
    """The one row with the work of reading the log, and where the last reading ended (`rules/webhook_log.py`)."""

    __tablename__ = "webhook_log"

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, server_default="1", autoincrement=False)
    since: Mapped[datetime]
    read_at: Mapped[datetime]
    last_id: Mapped[int | None] = mapped_column(BigInteger)
    last_at: Mapped[datetime | None]

    __table_args__ = (CheckConstraint("id = 1", name="ck_webhook_log_one_row"),)
