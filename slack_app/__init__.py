"""The Slack app: what people type and click there calls operations in process, as the person that they are linked to.

`app` takes the requests of Slack; `commands` runs what people type, `buttons` what they click, and `submissions` the
forms that they send. The app has no rule of its own: roles, plans, limits and the audit log are those of the
operations.
"""
