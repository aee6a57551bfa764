"""The identity of the database: in which cluster it last ran, by its own record."""

from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, SmallInteger
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base


class DatabaseIdentity(Base):
    """The one row that says where the database last ran; the view `present_database` says where it runs now."""

    __tablename__ = "database_identity"

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, server_default="1", autoincrement=False)
    system_identifier: Mapped[int] = mapped_column(BigInteger)
    """Of the cluster; `initdb` makes a new one."""
    database_oid: Mapped[int] = mapped_column(BigInteger)
    table_oid: Mapped[int] = mapped_column(BigInteger)
    """Of this table: a dump that is restored into the same database makes the tables again."""
    timeline: Mapped[int]
    """Of the write-ahead log; recovery to a point in time and the promotion of a standby begin a new one."""
    seen_at: Mapped[datetime]
    """When the service last ran here, to within seconds; after a restore: the age of the backup."""
    noticed_at: Mapped[datetime | None]
    """When the service noticed that the database was restored; none: it was not, or an operator has confirmed it."""
    difference: Mapped[str | None]
    """By what it was noticed."""
    shown_at: Mapped[datetime | None]
    """When an operator was last shown what confirming would release."""

    __table_args__ = (CheckConstraint("id = 1", name="ck_database_identity_one_row"),)
