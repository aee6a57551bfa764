"""Operations of the tag Branches."""

from tests.handlers.callers import Tenant
from tests.handlers.guards import takes_credentials


class TestListBranches:
    def test_it_takes_a_key_that_reads_repositories_or_any_member(self, acme: Tenant) -> None:
        takes_credentials(acme, lambda caller: caller.get("/v1/branches"), scope="repo:read", least_role="viewer")

    def test_an_organisation_without_branches_has_an_empty_page(self, acme: Tenant) -> None:
        assert acme.key().get("/v1/branches").json() == {"data": [], "nextCursor": None}
