"""The pages that messages in Slack link to."""

from dataclasses import dataclass

from rules.notifications.links import in_organization


@dataclass(frozen=True, slots=True)
class Pages:
    """Pages of an organisation, whichever the reader acts in when they open one."""

    web_url: str
    organization_id: str

    def at(self, path: str) -> str:
        """Return the address of a page."""
        return self.web_url + in_organization(path, self.organization_id)
