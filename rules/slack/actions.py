"""The names that buttons and forms have in payloads."""

LIFT = "freeze.lift"
REQUEST = "exception.request"
GRANT = "exception.grant"
DENY = "exception.deny"
OPEN = "open"
"""A button that opens a page: Slack reports it, and nothing follows."""

START_FORM = "freeze.start"
CONFIRM_FORM = "freeze.confirm"
REQUEST_FORM = "exception.request"
DENY_FORM = "exception.deny"

SCOPE, UNTIL, REASON, PULL_REQUEST = "scope", "until", "reason", "pullRequest"
"""The fields of forms: Slack shows an error below the field that it names."""
VALUE = "value"
