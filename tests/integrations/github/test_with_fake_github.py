"""The client against the simulated GitHub, as a freeze uses it."""

from tests.integrations.github.conftest import SimulatedGitHub
from tools.fake_github.model.repositories import rename


def test_repositories_and_branches_are_listed_over_all_pages(simulated: SimulatedGitHub) -> None:
    for number in range(130):
        simulated.host.organization("acme").repository(f"service-{number}")
        simulated.web.branch(f"topic/{number}")
    found = list(simulated.client.repositories())
    assert len(found) == 131
    web = next(repository for repository in found if repository.name == "web")
    assert (web.github_id, web.node_id, web.owner) == (simulated.web.record.id, simulated.web.record.node_id, "acme")
    assert len(simulated.client.branches("acme", "web")) == 132
    (tips,) = simulated.client.branch_tips([web.node_id])
    assert len(tips.branches) == 132
    (releases,) = simulated.client.branch_tips([web.node_id], "release/")
    assert list(releases.branches) == ["release/9"]


def test_renamed_repository_is_found_by_id_and_by_its_old_name(simulated: SimulatedGitHub) -> None:
    rename(simulated.host.world, simulated.maintainer, simulated.web.record, "site")
    assert simulated.client.repository(simulated.web.record.id).name == "site"
    assert {branch.name for branch in simulated.client.branches("acme", "web")} == {"main", "release/9"}
    assert simulated.client.branch("acme", "site", "release/9").name == "release/9"


def test_malformed_check_write_does_not_affect_others(simulated: SimulatedGitHub) -> None:
    sha = simulated.web.pull_request().head_sha
    unknown, nowhere, good = simulated.client.write_checks(
        [simulated.write("f" * 40), simulated.write(sha, node_id="R_nowhere"), simulated.write(sha)]
    )
    assert unknown.error is not None
    assert not unknown.error.maybe_applied
    assert nowhere.error is not None
    assert nowhere.error.code == "repository_not_found"
    assert good.check_run_id
