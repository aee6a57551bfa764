"""The GraphQL document that reads what rules of exceptions ask of pull requests.

Names were checked against GitHub's public schema as published in npm `@octokit/graphql-schema` 15.26.1. A file has no
former name there, and the account of a commit's author is a user only: REST has both.
"""

_ACTOR = "__typename login ... on User{databaseId} ... on Bot{databaseId}"
FACTS = f"""query Facts($ids:[ID!]!,$files:Boolean!,$labels:Boolean!,$approvals:Boolean!){{
 rateLimit{{limit cost remaining resetAt}}
 nodes(ids:$ids){{...on PullRequest{{
  number headRefOid baseRefName updatedAt additions deletions changedFiles
  repository{{id}} headRepository{{id}} author{{{_ACTOR}}}
  files(first:100)@include(if:$files){{pageInfo{{hasNextPage}} nodes{{path changeType}}}}
  labels(first:100)@include(if:$labels){{pageInfo{{hasNextPage}} nodes{{name createdAt updatedAt}}}}
  latestOpinionatedReviews(first:100)@include(if:$approvals){{
   pageInfo{{hasNextPage}} nodes{{state submittedAt commit{{oid}} author{{{_ACTOR}}}}}}}
  timelineItems(last:100,itemTypes:[LABELED_EVENT,HEAD_REF_FORCE_PUSHED_EVENT,BASE_REF_CHANGED_EVENT]){{
   pageInfo{{hasPreviousPage}} nodes{{__typename
    ...on LabeledEvent{{createdAt label{{name}} actor{{{_ACTOR}}}}}
    ...on HeadRefForcePushedEvent{{createdAt actor{{{_ACTOR}}}}}
    ...on BaseRefChangedEvent{{createdAt}}}}}}
 }}}}
}}
"""
