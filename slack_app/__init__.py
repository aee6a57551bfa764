"""The Slack app: what people type and click there calls operations in process, as the person that they are linked to.

`app` has the kinds of requests, `commands`, `buttons` and `forms` what people do. The app has no rule of its own:
roles, plans, limits and the audit log are those of the operations.
"""
