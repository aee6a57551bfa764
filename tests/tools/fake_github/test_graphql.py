"""GraphQL: GitHub's own schema, batches with partial success, bounds on what may be asked."""

from typing import Any

import graphql
import pytest
from githubkit import GitHub

from tests.tools.fake_github.conftest import CHECK
from tools.fake_github import FakeGitHub, Handle
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.graph.documents import SCHEMA
from tools.fake_github.graph.timeline_fields import ITEM_TYPES
from tools.fake_github.model.classic import protect
from tools.fake_github.model.labels import add_label
from tools.fake_github.model.pulls import note, review
from tools.fake_github.model.queue import enqueue
from tools.fake_github.model.world import Actor


@pytest.fixture
def web(github: FakeGitHub, bot: GitHub[Any]) -> RepositoryBuilder:
    return github.organization("acme").repository("web", branches=("next", "release/1", "release/2")).requires(CHECK)


def send(client: GitHub[Any], text: str, **variables: Any) -> dict[str, Any]:
    """Send a request and return the raw answer, with `data` and `errors` as they are."""
    answer = client.request("POST", "/graphql", json={"query": text, "variables": variables})
    assert answer.status_code == 200
    shown: dict[str, Any] = answer.json()
    return shown


def run_input(web: RepositoryBuilder, sha: str, conclusion: str = "FAILURE", **more: Any) -> dict[str, Any]:
    given = {"repositoryId": web.record.node_id, "headSha": sha, "name": CHECK, "conclusion": conclusion}
    return {**given, "status": "COMPLETED", **more}


def batch(inputs: list[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    names = [f"i{number}" for number in range(len(inputs))]
    declared = ",".join(f"${name}:CreateCheckRunInput!" for name in names)
    fields = " ".join(f"c{name}:createCheckRun(input:${name}){{checkRun{{databaseId conclusion}}}}" for name in names)
    return f"mutation({declared}){{{fields}}}", dict(zip(names, inputs, strict=True))


def test_graphql_schema_is_valid() -> None:
    assert graphql.validate_schema(SCHEMA) == []


def test_batch_writes_many_checks_in_a_single_call(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    pulls = [web.pull_request() for _ in range(25)]
    text, variables = batch([run_input(web, pull.head_sha, externalId=f"e{pull.number}") for pull in pulls])
    bot.rest.repos.get("acme", "web")  # the token is there now
    web.github.calls.reset()
    data = bot.graphql(text, variables)
    assert [run["checkRun"]["conclusion"] for run in data.values()] == ["FAILURE"] * 25
    assert (web.github.calls.total, web.github.calls.by_root_field["createCheckRun"]) == (1, 25)
    assert [write["externalId"] for write in web.github.calls.writes] == [f"e{pull.number}" for pull in pulls]


def test_batch_can_succeed_partially(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    good = web.pull_request().head_sha
    text, variables = batch([run_input(web, good), run_input(web, "0" * 40), run_input(web, good, "SUCCESS")])
    shown = send(bot, text, **variables)
    assert shown["data"]["ci0"]["checkRun"]["conclusion"] == "FAILURE"
    assert shown["data"]["ci1"] is None
    assert shown["data"]["ci2"]["checkRun"]["conclusion"] == "SUCCESS"
    (error,) = shown["errors"]
    assert (error["type"], error["path"]) == ("UNPROCESSABLE", ["ci1"])
    assert error["locations"]


def test_unknown_repository_is_an_error_of_its_alias(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    given = run_input(web, web.pull_request().head_sha) | {"repositoryId": "R_nowhere"}
    text, variables = batch([given])
    (error,) = send(bot, text, **variables)["errors"]
    assert error["type"] == "NOT_FOUND"
    assert error["message"] == "Could not resolve to a node with the global id of 'R_nowhere'"


def test_check_run_can_be_null_without_an_error(github: FakeGitHub, web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    sha = web.pull_request().head_sha
    github.faults.add("null_check_run", count=1)
    text, variables = batch([run_input(web, sha), run_input(web, sha)])
    shown = send(bot, text, **variables)
    assert "errors" not in shown
    assert shown["data"]["ci0"] == {"checkRun": None}
    assert shown["data"]["ci1"]["checkRun"]
    assert len(github.world.runs) == 1


READ = """query($ids:[ID!]!,$base:String!){rateLimit{cost remaining resetAt}
 nodes(ids:$ids){... on Repository{id databaseId nameWithOwner isArchived defaultBranchRef{name target{oid}}
  pullRequests(states:OPEN,baseRefName:$base,first:100){totalCount pageInfo{hasNextPage endCursor}
   nodes{number isDraft headRefOid baseRefName baseRefOid title url state author{__typename login} reviewDecision
    mergeable mergeStateStatus autoMergeRequest{enabledAt mergeMethod} mergeQueueEntry{headCommit{oid}}
    commits(last:1){nodes{commit{oid checkSuites(first:5,filterBy:{appId:4242}){nodes{conclusion
     checkRuns(first:5,filterBy:{checkType:LATEST}){nodes{name status conclusion externalId databaseId}}}}}}}}}
  mergeQueue(branch:$base){entries(first:50){nodes{headCommit{oid} state}}}}}}"""


def test_many_repositories_are_read_with_a_single_query(
    github: FakeGitHub, web: RepositoryBuilder, bot: GitHub[Any], handle: Handle
) -> None:
    api = github.organization("acme").repository("api")
    api.pull_request()
    pull = web.pull_request(checks={CHECK: "success"}, autoMerge=True, reviewDecision="APPROVED")
    web.pull_request(base="next")
    data = bot.graphql(READ, {"ids": [web.record.node_id, api.record.node_id], "base": "main"})
    first, second = data["nodes"]
    assert (first["nameWithOwner"], second["nameWithOwner"]) == ("acme/web", "acme/api")
    (shown,) = first["pullRequests"]["nodes"]
    assert (shown["number"], shown["headRefOid"]) == (pull.number, pull.head_sha)
    assert shown["url"] == f"{handle.base_url}/acme/web/pull/{pull.number}"
    assert shown["author"] == {"__typename": "User", "login": "maintainer"}
    assert shown["mergeStateStatus"] == "CLEAN"
    suite = shown["commits"]["nodes"][0]["commit"]["checkSuites"]["nodes"][0]
    assert [run["conclusion"] for run in suite["checkRuns"]["nodes"]] == ["SUCCESS"]
    assert first["mergeQueue"] is None
    assert data["rateLimit"]["remaining"] < 5000


def test_connection_is_paged_by_cursors_in_both_directions(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    numbers = [web.pull_request().number for _ in range(5)]
    text = """query($first:Int,$last:Int,$after:String,$before:String){repository(owner:"acme",name:"web"){
     pullRequests(first:$first,last:$last,after:$after,before:$before){nodes{number}
      pageInfo{hasNextPage hasPreviousPage startCursor endCursor}}}}"""
    seen: list[int] = []
    after = None
    while True:
        page = bot.graphql(text, {"first": 2, "after": after})["repository"]["pullRequests"]
        seen.extend(node["number"] for node in page["nodes"])
        after = page["pageInfo"]["endCursor"]
        if not page["pageInfo"]["hasNextPage"]:
            break
    assert seen == numbers
    tail = bot.graphql(text, {"last": 2, "before": after})["repository"]["pullRequests"]
    assert [node["number"] for node in tail["nodes"]] == numbers[2:4]


def test_branches_are_found_by_part_of_their_name(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    text = """{repository(owner:"acme",name:"web"){refs(refPrefix:"refs/heads/",query:"release",first:10){nodes{name
     target{... on Commit{oid}}}} ref(qualifiedName:"refs/heads/release/1"){name prefix}}}"""
    found = bot.graphql(text)["repository"]
    assert [ref["name"] for ref in found["refs"]["nodes"]] == ["release/1", "release/2"]
    assert found["ref"] == {"name": "release/1", "prefix": "refs/heads/"}


def test_every_check_run_of_a_name_is_listed_on_request(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    sha = web.pull_request().head_sha
    for conclusion in ("FAILURE", "SUCCESS"):
        text, variables = batch([run_input(web, sha, conclusion)])
        bot.graphql(text, variables)
    text = """query($sha:GitObjectID!,$type:CheckRunType){repository(owner:"acme",name:"web"){object(oid:$sha){
     ... on Commit{checkSuites(first:1,filterBy:{checkName:"change-freeze/main"}){nodes{
      checkRuns(first:9,filterBy:{checkType:$type}){nodes{conclusion}}}}}}}}"""

    def conclusions(kind: str) -> list[str]:
        found = bot.graphql(text, {"sha": sha, "type": kind})["repository"]["object"]["checkSuites"]["nodes"][0]
        return [run["conclusion"] for run in found["checkRuns"]["nodes"]]

    assert conclusions("ALL") == ["FAILURE", "SUCCESS"]
    assert conclusions("LATEST") == ["SUCCESS"]


def test_count_of_a_connection_needs_no_page_size(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    web.pull_request()
    text = '{repository(owner:"acme",name:"web"){pullRequests{totalCount}}}'
    assert bot.graphql(text)["repository"]["pullRequests"] == {"totalCount": 1}


def test_invalid_query_gets_an_error(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    cases: list[tuple[str, str]] = [
        ("{repository(owner:1,name:2){id}}", "String cannot represent a non string value"),
        ("{nothing}", "Cannot query field 'nothing'"),
        ("{repository(owner:", "Syntax Error"),
        ('{repository(owner:"acme",name:"web"){pullRequests{nodes{id}}}}', "You must provide a `first` or `last`"),
        ('{repository(owner:"acme",name:"web"){refs(refPrefix:"refs/heads/",first:101){totalCount}}}', "limit of 100"),
        ('{repository(owner:"acme",name:"none"){id}}', "Could not resolve to a Repository with the name 'acme/none'."),
        ("query($id:ID!){node(id:$id){id}}", "to be provided"),
    ]
    for text, expected in cases:
        assert expected in send(bot, text)["errors"][0]["message"]


def test_query_over_half_a_million_nodes_is_rejected(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    text = """query($ids:[ID!]!){nodes(ids:$ids){... on Repository{pullRequests(first:100){nodes{
     commits(first:100){nodes{commit{parents(first:100){totalCount}}}}}}}}}"""
    (error,) = send(bot, text, ids=[web.record.node_id])["errors"]
    assert error["type"] == "MAX_NODE_LIMIT_EXCEEDED"


def test_repositories_of_other_installations_are_not_found(
    github: FakeGitHub, web: RepositoryBuilder, bot: GitHub[Any]
) -> None:
    secret = github.organization("globex").repository("secret")
    shown = send(bot, "query($ids:[ID!]!){mine:nodes(ids:$ids){id}}", ids=[web.record.node_id, secret.record.node_id])
    assert shown["data"]["mine"] == [{"id": web.record.node_id}, None]
    assert shown["errors"][0]["path"] == ["mine", 1]


def test_graphql_supports_fragments_directives_and_introspection(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    text = """query($yes:Boolean!,$no:Boolean!){a:repository(owner:"acme",name:"web"){...R id @skip(if:$yes)}
     b:repository(owner:"acme",name:"web"){owner{__typename login ...on Organization{databaseId}}
      name @include(if:$no)}}
     fragment R on Repository{nameWithOwner name}"""
    found = bot.graphql(text, {"yes": True, "no": False})
    assert found["a"] == {"nameWithOwner": "acme/web", "name": "web"}
    assert found["b"]["owner"]["__typename"] == "Organization"
    assert set(found["b"]) == {"owner"}
    assert bot.graphql('{__type(name:"CheckRun"){name}}')["__type"] == {"name": "CheckRun"}


@pytest.mark.check
@pytest.mark.slow(4)
def test_every_field_of_the_graphql_schema_resolves(
    github: FakeGitHub, web: RepositoryBuilder, bot: GitHub[Any]
) -> None:
    """Ask every field of every type that hangs on a repository, three levels deep, and get no internal error."""
    web.merge_queue()
    wanted = {"required_status_checks": {"strict": False, "checks": [{"context": CHECK, "app_id": github.app_id}]}}
    rest = {"enforce_admins": True, "required_pull_request_reviews": None, "restrictions": None}
    protect(github.world, Actor(github.maintainer), web.record, "main", wanted | rest)
    actors = [
        {"actor_id": number, "actor_type": kind} for number, kind in ((12, "Team"), (github.app_id, "Integration"))
    ]
    web.ruleset(name="Bypassed", enforcement="active", bypass_actors=actors)
    pull = web.pull_request(checks={CHECK: "success"}, autoMerge=True)
    review(github.world, github.maintainer, web.record, pull, "COMMENTED")
    review(github.world, github.maintainer, web.record, pull, "APPROVED")
    add_label(github.world, Actor(github.maintainer), web.record, pull, "hotfix")
    for kind in ITEM_TYPES.values():
        label_id = pull.timeline[0].label_id
        note(github.world, Actor(github.maintainer), pull, kind, before="main", after="main", label_id=label_id or "")
    entry = enqueue(github.world, Actor(github.maintainer), web.record, pull).node_id
    run = next(iter(github.world.runs.values()))
    suite = github.world.suites[run.suite_id]
    for kind, node in {
        "Repository": web.record.node_id,
        "PullRequest": pull.node_id,
        "CheckRun": run.node_id,
        "CheckSuite": suite.node_id,
        "MergeQueueEntry": entry,
        "App": github.app.node_id,
        "RepositoryRuleset": next(iter(github.world.rulesets.values())).node_id,
    }.items():
        text = f"query($id:ID!){{node(id:$id){{...on {kind}{{{everything(kind)}}}}}}}"
        shown = send(bot, text, id=node)
        assert "errors" not in shown, (kind, shown["errors"][:2])


ARGUMENTS = {
    "refs": '(refPrefix:"refs/heads/",first:2)',
    "ref": '(qualifiedName:"main")',
    "object": '(expression:"main")',
    "pullRequest": "(number:1)",
    "repository": '(name:"web")',
    "ruleset": "(databaseId:1)",
    "fieldValueByName": '(name:"Status")',
}


def everything(kind: str, depth: int = 3) -> str:
    """Select every field of a type, down to a depth."""
    declared = SCHEMA.type_map[kind]
    if isinstance(declared, graphql.GraphQLInterfaceType):
        return "__typename"
    if isinstance(declared, graphql.GraphQLUnionType):
        return "__typename " + " ".join(f"...on {each.name}{{{leaves(each)}}}" for each in declared.types)
    assert isinstance(declared, graphql.GraphQLObjectType)
    parts = ["__typename"]
    for name, field in declared.fields.items():
        inner = graphql.get_named_type(field.type)
        if graphql.is_leaf_type(inner):
            parts.append(name)
        elif depth:
            paged = "first" in field.args
            given = ARGUMENTS.get(name, "(first:2)" if paged else "") if field.args else ""
            below = depth if inner.name.endswith(("Connection", "Edge")) else depth - 1
            parts.append(f"{name}{given}{{{everything(inner.name, below)}}}")
    return " ".join(parts)


def leaves(declared: graphql.GraphQLObjectType) -> str:
    """Select the scalar fields of a member of a union, under names that no other member has."""
    names = [
        name for name, field in declared.fields.items() if graphql.is_leaf_type(graphql.get_named_type(field.type))
    ]
    return " ".join(f"{declared.name}_{name}:{name}" for name in names) or "__typename"
