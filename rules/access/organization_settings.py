"""Settings of an organisation, with their defaults."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Approval = Literal["admin", "member"]
CheckText = Literal["full", "public"]


@dataclass(frozen=True, slots=True)
class OrganizationSettings:
    """The effective settings."""

    approval: Approval = "admin"
    """The least role that may grant, deny and revoke exceptions."""
    self_approval: bool = False
    """True if people may decide on their own requests."""
    timezone: str = "UTC"
    """IANA name of the time zone for display, and the default for new schedules."""

    check_text: CheckText = "full"
    """What checks of private repositories show: reasons and names, or only what those of public ones show."""

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "OrganizationSettings":
        """Return the settings of a row, with defaults for missing ones; unknown ones are ignored."""
        defaults = cls()
        return cls(
            approval=stored.get("approval", defaults.approval),
            self_approval=stored.get("selfApproval", defaults.self_approval),
            timezone=stored.get("timezone", defaults.timezone),
            check_text=stored.get("checkText", defaults.check_text),
        )

    def as_json(self) -> dict[str, Any]:
        """Return the settings by their names in the contract, as stored in the row and the audit log."""
        return {
            "approval": self.approval,
            "selfApproval": self.self_approval,
            "timezone": self.timezone,
            "checkText": self.check_text,
        }
