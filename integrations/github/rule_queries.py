"""The GraphQL documents that read rules, validated by hand against npm `@octokit/graphql-schema` 15.26.1.

There are two, because GitHub computes the cost of a query from its `first:` arguments: bypass actors are read once per
ruleset, not below each rule of each branch. 25 branches cost one point, 100 rulesets two.
"""

from functools import lru_cache

from integrations.github.queries import RATE, REPOSITORY

_RULES = """fragment Rules on RepositoryRuleConnection{
 pageInfo{hasNextPage}
 nodes{type
  parameters{__typename
   ...on RequiredStatusChecksParameters{requiredStatusChecks{context integrationId}}
   ...on MergeQueueParameters{groupingStrategy}}
  repositoryRuleset{...Ruleset}}
}
"""
_RULESET = "fragment Ruleset on RepositoryRuleset{id databaseId name enforcement updatedAt source{__typename}}\n"
_CLASSIC = """fragment Classic on BranchProtectionRule{
 isAdminEnforced lockBranch requiresStatusChecks requiredStatusChecks{context app{databaseId}}
}
"""
_GROUP = """ g%(n)d:nodes(ids:$i%(n)d){...on Repository{%(repository)s
  rulesets(first:50,includeParents:true,targets:[BRANCH]){
   nodes{...Ruleset conditions{refName{include exclude}}}}
  ref(qualifiedName:$q%(n)d){rules(first:100){...Rules} branchProtectionRule{...Classic}}
  mergeQueue(branch:$b%(n)d){configuration{mergingStrategy}}}}"""

RULESETS = f"""query Rulesets($ids:[ID!]!){{
 {RATE}
 nodes(ids:$ids){{...on RepositoryRuleset{{id
  bypassActors(first:100){{nodes{{bypassMode deployKey enterpriseOwner organizationAdmin
   repositoryRoleDatabaseId repositoryRoleName
   actor{{__typename ...on App{{databaseId name}} ...on Team{{databaseId name}}}}}}}}
  rules(first:10,type:REQUIRED_STATUS_CHECKS){{nodes{{
   parameters{{...on RequiredStatusChecksParameters{{requiredStatusChecks{{context integrationId}}}}}}}}}}}}}}
}}"""
"""Rulesets by node id: bypass actors, and the checks that they require or, if inactive, would require."""


@lru_cache(maxsize=64)
def rules(groups: int) -> str:
    """Return the query for the rules of branches: `$i0 $b0 $q0`, `$i1 …` as in `queries.heads`."""
    numbers = range(groups)
    variables = ",".join(f"$i{n}:[ID!]!,$b{n}:String!,$q{n}:String!" for n in numbers)
    fields = "\n".join(_GROUP % {"n": n, "repository": REPOSITORY} for n in numbers)
    return f"query Rules({variables}){{\n {RATE}\n{fields}\n}}\n{_RULES}{_RULESET}{_CLASSIC}"
