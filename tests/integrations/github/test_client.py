"""Reading repositories, branches and heads, and writing checks, against scripted answers."""

from typing import Any

import pytest

from integrations.github import BranchRef, CheckWrite, ErrorKind, GitHub, GitHubError
from tests.integrations.github.scripted_server import Reply, Script

SHA = "a" * 40


def node(number: int, **extra: Any) -> dict[str, Any]:
    return {
        "id": f"R_{number}",
        "databaseId": number,
        "name": f"repo{number}",
        "owner": {"login": "acme"},
        "isPrivate": True,
        "isArchived": False,
        "defaultBranchRef": {"name": "main"},
        "ref": {"target": {"oid": "b" * 40}},
        "pullRequests": pulls(),
        "mergeQueue": None,
        **extra,
    }


def pulls(*numbers: int, after: str | None = None) -> dict[str, Any]:
    return {
        "pageInfo": {"hasNextPage": after is not None, "endCursor": after},
        "nodes": [
            {
                "id": f"PR_{number}",
                "number": number,
                "title": f"Change {number}",
                "url": f"https://github.test/acme/web/pull/{number}",
                "isDraft": False,
                "headRefOid": f"{number:040x}",
                "reviewDecision": "APPROVED",
                "isInMergeQueue": False,
                "updatedAt": "2026-11-01T00:00:00Z",
                "author": {"login": "ann"},
                "autoMergeRequest": {"enabledAt": "2026-11-01T00:00:00Z"},
            }
            for number in numbers
        ],
    }


def graph(data: Any, *errors: dict[str, Any]) -> Reply:
    return Reply({"data": data, **({"errors": list(errors)} if errors else {})})


def write(sha: str = SHA, external_id: str = "g1") -> CheckWrite:
    return CheckWrite("R_1", "Change freeze", sha, "failure", "Frozen", "Until Monday", external_id)


MAIN_1 = BranchRef("R_1", "main")
MAIN_2 = BranchRef("R_2", "main")


def test_heads_of_two_repositories_are_read_in_one_call(github: GitHub, script: Script) -> None:
    script.then("POST /graphql", graph({"g0": [node(1, pullRequests=pulls(5)), node(2)]}))
    first, second = github.client(7).open_heads([MAIN_1, MAIN_2])
    assert len(script.asked("POST /graphql")) == 1
    assert first.repository is not None
    assert (first.repository.owner, first.repository.github_id) == ("acme", 1)
    pull = first.pulls[0]
    assert (pull.number, pull.auto_merge, pull.review_decision, pull.author) == (5, True, "approved", "ann")
    assert first.sha == "b" * 40
    assert second.pulls == ()
    assert first.error is second.error is None


def test_open_heads_are_returned_in_the_order_of_the_branches(github: GitHub, script: Script) -> None:
    script.then("POST /graphql", graph({"g0": [node(1), node(2)], "g1": [node(1)]}))
    wanted = [MAIN_1, BranchRef("R_1", "release/9"), MAIN_2]
    found = github.client(7).open_heads(wanted)
    assert [(heads.repository_node_id, heads.name) for heads in found] == [
        ("R_1", "main"),
        ("R_1", "release/9"),
        ("R_2", "main"),
    ]
    sent = script.asked("POST /graphql")[0].body["variables"]
    assert sent == {
        "i0": ["R_1", "R_2"],
        "b0": "main",
        "q0": "refs/heads/main",
        "i1": ["R_1"],
        "b1": "release/9",
        "q1": "refs/heads/release/9",
    }


def test_pull_requests_beyond_the_first_hundred_are_read(github: GitHub, script: Script) -> None:
    script.then(
        "POST /graphql",
        graph({"g0": [node(1, pullRequests=pulls(*range(1, 101), after="c1"))]}),
        graph({"node": {"pullRequests": pulls(*range(101, 201), after="c2")}}),
        graph({"node": {"pullRequests": pulls(201)}}),
    )
    (heads,) = github.client(7).open_heads([MAIN_1])
    assert [pull.number for pull in heads.pulls] == list(range(1, 202))
    assert [seen.body["variables"].get("after") for seen in script.asked("POST /graphql")] == [None, "c1", "c2"]


def test_every_query_but_the_first_is_announced(github: GitHub, script: Script) -> None:
    announced: list[int] = []
    script.then(
        "POST /graphql",
        graph({"g0": [node(1, pullRequests=pulls(*range(1, 101), after="c1"))]}),
        graph({"node": {"pullRequests": pulls(101)}}),
        *[graph({f"c{number}": {"object": None} for number in range(50)}) for _ in range(3)],
    )
    github.client(7).open_heads(
        [MAIN_1], read_back_app_id=42, between=lambda: announced.append(len(script.asked("POST /graphql")))
    )
    queries = len(script.asked("POST /graphql"))
    assert queries > 2
    assert announced == list(range(1, queries))


def test_failed_page_affects_only_its_branch(github: GitHub, script: Script) -> None:
    script.then(
        "POST /graphql",
        graph({"g0": [node(1, pullRequests=pulls(1, after="c1")), node(2, pullRequests=pulls(9))]}),
        Reply({"message": "Bad gateway"}, 502),
    )
    first, second = github.client(7).open_heads([MAIN_1, MAIN_2])
    assert first.error is not None
    assert first.error.code == "github_unavailable"
    assert [pull.number for pull in second.pulls] == [9]


def test_missing_repository_does_not_affect_others(github: GitHub, script: Script) -> None:
    fault = {"type": "NOT_FOUND", "path": ["g0", 0], "message": "Could not resolve to a node"}
    script.then("POST /graphql", graph({"g0": [None, node(2, pullRequests=pulls(9))]}, fault))
    first, second = github.client(7).open_heads([MAIN_1, MAIN_2])
    assert first.repository is None
    assert first.error is not None
    assert (first.error.kind, first.error.code) == (ErrorKind.NOT_FOUND, "repository_not_found")
    assert second.error is None
    assert second.pulls


def test_branches_are_read_singly_when_their_group_is_rejected(github: GitHub, script: Script) -> None:
    fault = {"type": "NOT_FOUND", "path": ["g0"], "message": "Could not resolve to a node"}
    script.then("POST /graphql", graph({"g0": None}, fault), graph({"g0": None}, fault), graph({"g0": [node(2)]}))
    first, second = github.client(7).open_heads([MAIN_1, MAIN_2])
    assert first.error is not None
    assert second.error is None


def test_pull_requests_are_read_when_the_queue_is_forbidden(github: GitHub, script: Script) -> None:
    fault = {"type": "FORBIDDEN", "path": ["g0", 0, "mergeQueue"], "message": "Resource not accessible by integration"}
    script.then("POST /graphql", graph({"g0": [node(1, pullRequests=pulls(3))]}, fault))
    (heads,) = github.client(7).open_heads([MAIN_1])
    assert heads.error is None
    assert heads.queue_error is not None
    assert heads.queue_error.code == "github_permission_denied"
    assert len(heads.pulls) == 1


def test_null_pull_request_is_an_error_and_not_absent(github: GitHub, script: Script) -> None:
    listed = pulls(3)
    listed["nodes"].append(None)
    fault = {"path": ["g0", 0, "pullRequests", "nodes", 1], "message": "Something went wrong"}
    script.then("POST /graphql", graph({"g0": [node(1, pullRequests=listed)]}, fault))
    (heads,) = github.client(7).open_heads([MAIN_1])
    assert heads.error is not None
    assert heads.error.code == "github_unavailable"


def test_unreadable_repository_does_not_affect_others(github: GitHub, script: Script) -> None:
    script.then("POST /graphql", graph({"g0": [node(1, owner=None), node(2)]}))
    first, second = github.client(7).open_heads([MAIN_1, MAIN_2])
    assert first.error is not None
    assert first.error.code == "github_unavailable"
    assert second.error is None


def test_pull_request_title_is_sanitized(github: GitHub, script: Script) -> None:
    listed = pulls(3)
    listed["nodes"][0]["title"] = "a\x00b"
    script.then("POST /graphql", graph({"g0": [node(1, pullRequests=listed)]}))
    assert github.client(7).open_heads([MAIN_1])[0].pulls[0].title == "ab"


def test_queue_entries_are_ordered_by_position(github: GitHub, script: Script) -> None:
    entries = [
        {"position": 2, "headCommit": None, "pullRequest": {"number": 8}},
        {"position": 1, "headCommit": {"oid": SHA}, "pullRequest": None},
    ]
    page = {"pageInfo": {"hasNextPage": False, "endCursor": None}, "nodes": entries}
    script.then("POST /graphql", graph({"g0": [node(1, mergeQueue={"entries": page})]}))
    (heads,) = github.client(7).open_heads([MAIN_1])
    assert [(entry.position, entry.pull_number, entry.head_sha) for entry in heads.queue] == [
        (1, None, SHA),
        (2, 8, None),
    ]


def refs(*names: str, after: str | None = None) -> dict[str, Any]:
    nodes = [{"name": name, "target": {"oid": SHA}} for name in names]
    return {"refs": {"pageInfo": {"hasNextPage": after is not None, "endCursor": after}, "nodes": nodes}}


def test_branches_of_many_repositories_are_read_in_one_call(github: GitHub, script: Script) -> None:
    fault = {"type": "NOT_FOUND", "path": ["nodes", 1], "message": "Could not resolve to a node"}
    script.then(
        "POST /graphql",
        graph({"nodes": [node(1, **refs("main", after="c1")), None, node(3, **refs("main"))]}, fault),
        graph({"node": refs("release/9")}),
    )
    first, second, third = github.client(7).branch_tips(["R_1", "R_2", "R_3"])
    assert first.branches == {"main": SHA, "release/9": SHA}
    assert second.repository is None
    assert second.error is not None
    assert second.error.kind is ErrorKind.NOT_FOUND
    assert third.branches == {"main": SHA}
    assert third.error is None


def test_repositories_are_read_singly_when_their_group_is_rejected(github: GitHub, script: Script) -> None:
    fault = {"type": "NOT_FOUND", "path": ["nodes"], "message": "Could not resolve to a node"}
    script.then(
        "POST /graphql",
        graph({"nodes": None}, fault),
        Reply({"message": "Bad gateway"}, 502),
        graph({"nodes": [node(2, **refs("main"))]}),
    )
    first, second = github.client(7).branch_tips(["R_1", "R_2"])
    assert first.error is not None
    assert second.branches == {"main": SHA}


def test_read_back_returns_the_newest_run_of_each_name(github: GitHub, script: Script) -> None:
    runs = [
        {"databaseId": number, "name": name, "status": "COMPLETED", "conclusion": verdict, "externalId": f"g{number}"}
        for number, name, verdict in [
            (3, "a", "FAILURE"),
            (9, "a", "SUCCESS"),
            (4, "b", "FAILURE"),
            (5, "c", "FAILURE"),
        ]
    ]
    suites = {"nodes": [{"checkRuns": {"nodes": runs[:1]}}, {"checkRuns": {"nodes": runs[1:]}}]}
    script.then(
        "POST /graphql",
        graph({"g0": [node(1, pullRequests=pulls(5, 6))]}),
        graph({"c0": {"object": {"checkSuites": suites}}, "c1": {"object": None}}),
    )
    (heads,) = github.client(7).open_heads([MAIN_1], read_back_app_id=42)
    first, second = heads.pulls
    assert [(check.id, check.name, check.conclusion) for check in first.checks] == [
        (9, "a", "success"),
        (4, "b", "failure"),
        (5, "c", "failure"),
    ]
    assert second.checks == ()


def test_checks_that_cannot_be_read_back_are_an_error(github: GitHub, script: Script) -> None:
    fault = {"type": "FORBIDDEN", "path": ["c0", "object", "checkSuites"], "message": "Resource not accessible"}
    script.then(
        "POST /graphql",
        graph({"g0": [node(1, pullRequests=pulls(5))]}),
        graph({"c0": {"object": {"checkSuites": None}}}, fault),
    )
    (heads,) = github.client(7).open_heads([MAIN_1], read_back_app_id=42)
    assert heads.error is not None
    assert heads.error.kind is ErrorKind.PERMISSION


def test_checks_are_written_by_one_mutation(github: GitHub, script: Script) -> None:
    script.then("POST /graphql", graph({f"c{n}": {"checkRun": {"databaseId": 100 + n}} for n in range(3)}))
    results = github.client(7).write_checks([write(external_id=str(n)) for n in range(3)])
    assert [result.check_run_id for result in results] == [100, 101, 102]
    sent = script.asked("POST /graphql")[0].body
    assert sent["variables"]["i1"] == {
        "repositoryId": "R_1",
        "name": "Change freeze",
        "headSha": SHA,
        "status": "COMPLETED",
        "conclusion": "FAILURE",
        "externalId": "1",
        "output": {"title": "Frozen", "summary": "Until Monday"},
    }


def test_check_write_without_an_id_is_its_own_error(github: GitHub, script: Script) -> None:
    fault = {"type": "FORBIDDEN", "path": ["c2"], "message": "Resource not accessible by integration"}
    data = {"c0": {"checkRun": {"databaseId": 1}}, "c1": {"checkRun": None}, "c2": None}
    script.then("POST /graphql", graph(data, fault))
    good, silent, refused = github.client(7).write_checks([write(external_id=str(n)) for n in range(3)])
    assert (good.check_run_id, good.error) == (1, None)
    assert silent.error is not None
    assert (silent.error.code, silent.error.maybe_applied) == ("github_unavailable", True)
    assert refused.error is not None
    assert (refused.error.code, refused.error.maybe_applied) == ("github_permission_denied", False)


def test_malformed_commit_is_rejected_locally_and_other_checks_written(github: GitHub, script: Script) -> None:
    script.then("POST /graphql", graph({"c0": {"checkRun": {"databaseId": 1}}}))
    bad, good = github.client(7).write_checks([write(sha="HEAD"), write()])
    assert bad.error is not None
    assert bad.error.kind is ErrorKind.REJECTED
    assert good.check_run_id == 1


def rest_repository(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "node_id": f"R_{number}",
        "name": f"repo{number}",
        "owner": {"login": "acme"},
        "default_branch": "trunk",
        "private": False,
        "archived": False,
    }


def test_next_page_on_another_host_is_not_followed(github: GitHub, script: Script) -> None:
    link = '<http://elsewhere.test/installation/repositories?page=2>; rel="next"'
    body = {"repositories": [rest_repository(1)]}
    script.then("GET /installation/repositories", Reply(body, headers={"Link": link}))
    with pytest.raises(GitHubError) as caught:
        list(github.client(7).repositories())
    assert caught.value.code == "github_unavailable"


def test_slash_in_a_branch_name_is_escaped_in_the_path(github: GitHub, script: Script) -> None:
    script.then("GET /repos/acme/web/rules/branches/release%2F9", Reply([{"type": "deletion"}]))
    assert github.client(7).branch_rules("acme", "web", "release/9") == [{"type": "deletion"}]


@pytest.mark.parametrize("owner", ["..", ".", ""])
def test_owner_with_path_traversal_is_not_sent(github: GitHub, script: Script, owner: str) -> None:
    with pytest.raises(GitHubError) as caught:
        github.client(7).branches(owner, "web")
    assert caught.value.kind is ErrorKind.NOT_FOUND
    assert script.seen == []


def test_missing_branch_is_reported(github: GitHub, script: Script) -> None:
    with pytest.raises(GitHubError) as caught:
        github.client(7).branch("acme", "web", "gone")
    assert caught.value.code == "branch_not_found"
