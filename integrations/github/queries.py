"""The GraphQL documents, built once per number of groups, so that their text stays the same for caches.

Validated by hand against GitHub's public schema as published in npm `@octokit/graphql-schema` 15.26.1.

Branches are read in groups with the same name: `nodes(ids:)` takes the repositories, a variable the branch name. The
text therefore depends only on the number of names, and a freeze of `main` in 25 repositories is one short document.
Checks are read back by commit in a separate document: GitHub computes the cost of a query from its `first:` arguments,
so checks nested below pull requests would cost a hundred times as many points as the few commits that exist.
"""

from functools import lru_cache

RATE = "rateLimit{limit cost remaining resetAt}"
REPOSITORY = "id databaseId name owner{login} isPrivate isArchived defaultBranchRef{name}"
_PULLS = """fragment Pulls on PullRequestConnection{
 pageInfo{hasNextPage endCursor}
 nodes{id number title url isDraft headRefOid reviewDecision isInMergeQueue updatedAt
  author{login} autoMergeRequest{enabledAt}}
}
"""
_ENTRIES = """fragment Entries on MergeQueueEntryConnection{
 pageInfo{hasNextPage endCursor}
 nodes{position headCommit{oid} pullRequest{number}}
}
"""
_CHECKS = """fragment Checks on Commit{
 checkSuites(first:3,filterBy:{appId:$app}){nodes{
  checkRuns(first:50,filterBy:{appId:$app,checkType:LATEST}){nodes{databaseId name status conclusion externalId}}}}
}
"""
_GROUP = """ g%(n)d:nodes(ids:$i%(n)d){...on Repository{%(repository)s ref(qualifiedName:$q%(n)d){target{oid}}
  pullRequests(states:OPEN,baseRefName:$b%(n)d,first:100){...Pulls}
  mergeQueue(branch:$b%(n)d){entries(first:100){...Entries}}}}"""

PULLS_PAGE = f"""query PullsPage($id:ID!,$branch:String!,$after:String!){{
 {RATE}
 node(id:$id){{...on Repository{{pullRequests(states:OPEN,baseRefName:$branch,first:100,after:$after){{...Pulls}}}}}}
}}
{_PULLS}"""
"""The pull requests of one branch after the first hundred."""

ENTRIES_PAGE = f"""query EntriesPage($id:ID!,$branch:String!,$after:String!){{
 {RATE}
 node(id:$id){{...on Repository{{mergeQueue(branch:$branch){{entries(first:100,after:$after){{...Entries}}}}}}}}
}}
{_ENTRIES}"""
"""The merge queue of one branch after the first hundred."""


_REFS = """fragment Refs on RefConnection{
 pageInfo{hasNextPage endCursor}
 nodes{name target{oid}}
}
"""

TIPS = f"""query Tips($ids:[ID!]!,$text:String!){{
 {RATE}
 nodes(ids:$ids){{...on Repository{{{REPOSITORY} refs(refPrefix:"refs/heads/",query:$text,first:100){{...Refs}}}}}}
}}
{_REFS}"""
"""The branches of many repositories whose names contain a text."""

TIPS_PAGE = f"""query TipsPage($id:ID!,$text:String!,$after:String!){{
 {RATE}
 node(id:$id){{...on Repository{{refs(refPrefix:"refs/heads/",query:$text,first:100,after:$after){{...Refs}}}}}}
}}
{_REFS}"""
"""The branches of one repository after the first hundred."""


@lru_cache(maxsize=64)
def heads(groups: int) -> str:
    """Return the query for branches: `$i0 $b0 $q0`, `$i1 …` are a group's repository ids, branch name and full name."""
    numbers = range(groups)
    variables = ",".join(f"$i{n}:[ID!]!,$b{n}:String!,$q{n}:String!" for n in numbers)
    fields = "\n".join(_GROUP % {"n": n, "repository": REPOSITORY} for n in numbers)
    return f"query Heads({variables}){{\n {RATE}\n{fields}\n}}\n{_PULLS}{_ENTRIES}"


@lru_cache(maxsize=64)
def checks(commits: int) -> str:
    """Return the query for newest runs of the app `$app` on commits: `$r0 $s0`, `$r1 …` are repositories and SHAs."""
    numbers = range(commits)
    variables = "".join(f",$r{n}:ID!,$s{n}:GitObjectID!" for n in numbers)
    fields = "\n".join(f" c{n}:node(id:$r{n}){{...on Repository{{object(oid:$s{n}){{...Checks}}}}}}" for n in numbers)
    return f"query Checks($app:Int!{variables}){{\n {RATE}\n{fields}\n}}\n{_CHECKS}"


@lru_cache(maxsize=128)
def create_checks(writes: int) -> str:
    """Return the mutation that creates check runs: `$i0`, `$i1 …` are the inputs, `c0`, `c1 …` the payloads."""
    numbers = range(writes)
    variables = ",".join(f"$i{n}:CreateCheckRunInput!" for n in numbers)
    fields = "\n".join(f" c{n}:createCheckRun(input:$i{n}){{checkRun{{databaseId}}}}" for n in numbers)
    return f"mutation CreateChecks({variables}){{\n{fields}\n}}"
