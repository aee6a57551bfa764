"""The GraphQL documents of rules and rulesets, validated by hand against npm `@octokit/graphql-schema` 15.26.1.

Rules and rulesets are read apart, because GitHub computes the cost of a query from its `first:` arguments: bypass
actors are read once per ruleset, not below each rule of each branch. 25 branches cost one point, 100 rulesets two.
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

RULESET_BODIES = f"""query RulesetBodies($ids:[ID!]!){{
 {RATE}
 nodes(ids:$ids){{...on RepositoryRuleset{{id name target enforcement
  conditions{{refName{{include exclude}}
   repositoryId{{__typename}} repositoryName{{__typename}} repositoryProperty{{__typename}}}}
  bypassActors(first:1){{totalCount}}
  rules(first:20){{pageInfo{{hasNextPage}} nodes{{type
   parameters{{...on RequiredStatusChecksParameters{{
    strictRequiredStatusChecksPolicy doNotEnforceOnCreate requiredStatusChecks{{context integrationId}}}}}}}}}}}}}}
}}"""
"""Rulesets by node id, with all that is needed to write them back."""


@lru_cache(maxsize=32)
def update_rulesets(updates: int) -> str:
    """Return the mutation that changes rulesets: `$i0`, `$i1 …` are the inputs, `r0`, `r1 …` the payloads."""
    return _mutation("UpdateRulesets", "updateRepositoryRuleset", "UpdateRepositoryRulesetInput", updates)


@lru_cache(maxsize=32)
def create_rulesets(creations: int) -> str:
    """Return the mutation that creates rulesets: `$i0`, `$i1 …` are the inputs, `r0`, `r1 …` the payloads."""
    return _mutation("CreateRulesets", "createRepositoryRuleset", "CreateRepositoryRulesetInput", creations)


def _mutation(name: str, field: str, given: str, count: int) -> str:
    variables = ",".join(f"$i{n}:{given}!" for n in range(count))
    fields = "\n".join(f" r{n}:{field}(input:$i{n}){{ruleset{{id databaseId}}}}" for n in range(count))
    return f"mutation {name}({variables}){{\n{fields}\n}}"


@lru_cache(maxsize=64)
def rules(groups: int) -> str:
    """Return the query for the rules of branches: `$i0 $b0 $q0`, `$i1 …` as in `queries.heads`."""
    numbers = range(groups)
    variables = ",".join(f"$i{n}:[ID!]!,$b{n}:String!,$q{n}:String!" for n in numbers)
    fields = "\n".join(_GROUP % {"n": n, "repository": REPOSITORY} for n in numbers)
    return f"query Rules({variables}){{\n {RATE}\n{fields}\n}}\n{_RULES}{_RULESET}{_CLASSIC}"
