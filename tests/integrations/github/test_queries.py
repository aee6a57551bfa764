"""The documents fit the schema that the simulated GitHub cut out of GitHub's own."""

from pathlib import Path

import graphql
import pytest

from integrations.github import fact_queries, queries, rule_queries

SCHEMA = Path(__file__).parents[3] / "tools/fake_github/graph/schema.graphql"
DOCUMENTS = {
    "heads of one branch": queries.heads(1),
    "heads of 25 branches": queries.heads(25),
    "checks of one commit": queries.checks(1),
    "checks of 50 commits": queries.checks(50),
    "one new check": queries.create_checks(1),
    "25 new checks": queries.create_checks(25),
    "further pull requests": queries.PULLS_PAGE,
    "further queue entries": queries.ENTRIES_PAGE,
    "branches of repositories": queries.TIPS,
    "further branches": queries.TIPS_PAGE,
    "facts of pull requests": fact_queries.FACTS,
    "rules of one branch": rule_queries.rules(1),
    "rules of 25 branches": rule_queries.rules(25),
    "rulesets": rule_queries.RULESETS,
    "bodies of rulesets": rule_queries.RULESET_BODIES,
    "20 changed rulesets": rule_queries.update_rulesets(20),
    "20 new rulesets": rule_queries.create_rulesets(20),
}


@pytest.fixture(scope="module")
def schema() -> graphql.GraphQLSchema:
    return graphql.build_schema(SCHEMA.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_graphql_document_is_valid(schema: graphql.GraphQLSchema, name: str) -> None:
    assert graphql.validate(schema, graphql.parse(DOCUMENTS[name])) == []


def test_graphql_document_of_a_shape_is_built_once() -> None:
    assert queries.heads(3) is queries.heads(3)
    assert queries.create_checks(7) is queries.create_checks(7)
