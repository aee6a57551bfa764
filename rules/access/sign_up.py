"""Who may create an account: everybody, people who were invited, or also people with an address at certain domains."""

from dataclasses import dataclass
from typing import Literal

Mode = Literal["open", "invitation", "domain"]
MODES: tuple[Mode, ...] = ("open", "invitation", "domain")


@dataclass(frozen=True, slots=True)
class SignUpPolicy:
    """How accounts come to be; an invitation of the address permits one in every mode."""

    mode: Mode = "open"
    domains: tuple[str, ...] = ()
    """Domains of e-mail addresses, in lower case; a subdomain is another domain."""

    def permits(self, email: str) -> bool:
        """True if this address, in lower case, needs no invitation."""
        _, at, domain = email.rpartition("@")
        return self.mode == "open" or (self.mode == "domain" and bool(at) and domain in self.domains)

    @property
    def summary(self) -> str:
        """One sentence that says who may sign up; empty if everybody may."""
        if self.mode == "open":
            return ""
        if self.mode == "invitation":
            return "Accounts are for people who have been invited."
        return f"Accounts are for addresses at {' or '.join(self.domains)}, and for people who have been invited."
