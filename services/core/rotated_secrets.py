"""The secrets of a process that are rotated: what the previous one has protected is accepted for a while."""

from dataclasses import dataclass, field
from functools import partial
from secrets import token_bytes


@dataclass(frozen=True, slots=True)
class _RotatedSecret:
    current: bytes = field(default_factory=partial(token_bytes, 32), repr=False)
    """What protects from now on."""
    previous: bytes | None = field(default=None, repr=False)

    @property
    def accepted(self) -> tuple[bytes, ...]:
        """The current secret, and the previous one if there is one."""
        return (self.current,) if self.previous is None else (self.current, self.previous)


class SecretKey(_RotatedSecret):
    """Encrypts secrets in the database."""


class CursorSecret(_RotatedSecret):
    """Signs pagination cursors."""
