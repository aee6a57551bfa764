"""The GraphQL document that reads what rules of exceptions ask of pull requests.

Names were checked against GitHub's public schema as published in npm `@octokit/graphql-schema` 15.26.1. A file has no
former name there, and the account of a commit's author is a user only: REST has both.
"""

_ACTOR = "__typename login ... on User{databaseId} ... on Bot{databaseId}"
_CHANGES = (
    "HEAD_REF_FORCE_PUSHED_EVENT",
    "BASE_REF_CHANGED_EVENT",
    "AUTOMATIC_BASE_CHANGE_SUCCEEDED_EVENT",
    "BASE_REF_FORCE_PUSHED_EVENT",
)
"""What replaces the head, or what it is compared with: also GitHub retargets, when a base branch is deleted.

They are listed apart from labels, so that many labels cannot push them out of the list.
"""
FACTS = f"""query Facts($ids:[ID!]!,$files:Boolean!,$labels:Boolean!,$approvals:Boolean!){{
 rateLimit{{limit cost remaining resetAt}}
 nodes(ids:$ids){{...on PullRequest{{
  number headRefOid headRefName baseRefName updatedAt additions deletions changedFiles
  isCrossRepository author{{{_ACTOR}}}
  files(first:100)@include(if:$files){{pageInfo{{hasNextPage}} nodes{{path changeType}}}}
  labels(first:100)@include(if:$labels){{pageInfo{{hasNextPage}} nodes{{name createdAt updatedAt}}}}
  latestOpinionatedReviews(first:100)@include(if:$approvals){{
   pageInfo{{hasNextPage}} nodes{{state submittedAt commit{{oid}} author{{{_ACTOR}}}}}}}
  labeled:timelineItems(last:100,itemTypes:[LABELED_EVENT])@include(if:$labels){{
   nodes{{...on LabeledEvent{{createdAt label{{name}} actor{{{_ACTOR}}}}}}}}}
  changes:timelineItems(last:100,itemTypes:[{",".join(_CHANGES)}]){{nodes{{__typename
   ...on HeadRefForcePushedEvent{{createdAt actor{{{_ACTOR}}}}}
   ...on BaseRefChangedEvent{{createdAt}}
   ...on AutomaticBaseChangeSucceededEvent{{createdAt}}
   ...on BaseRefForcePushedEvent{{createdAt}}}}}}
 }}}}
}}
"""
