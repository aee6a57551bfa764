"""What an organisation can set for itself, and what holds where it has set nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Approval = Literal["admin", "member"]


@dataclass(frozen=True, slots=True)
class OrganizationSettings:
    """The settings in force."""

    approval: Approval = "admin"
    """The least role that grants, denies and revokes exceptions."""
    self_approval: bool = False
    """Whether people may decide on requests of their own."""
    timezone: str = "UTC"
    """IANA name of the zone in which times are shown, and which new schedules begin with."""

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "OrganizationSettings":
        """Return the settings that a row holds, each one missing by its default; what is unknown is left out."""
        defaults = cls()
        return cls(
            approval=stored.get("approval", defaults.approval),
            self_approval=stored.get("selfApproval", defaults.self_approval),
            timezone=stored.get("timezone", defaults.timezone),
        )

    def as_json(self) -> dict[str, Any]:
        """Return the settings by their names in the contract, as a row and the audit hold them."""
        return {"approval": self.approval, "selfApproval": self.self_approval, "timezone": self.timezone}
