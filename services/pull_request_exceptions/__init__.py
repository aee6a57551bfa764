"""Exceptions: single pull requests that may merge during a freeze, each with a person and a reason.

- `requests` requests exceptions, one for each freeze that covers the base, under one request group; `check_actions`
  does it for the button of the check at GitHub. `decisions` grants, denies and revokes.
- `expiry` records what time, the end of a freeze, or a push to a pinned commit has ended.
- `changes` holds what all changes have in common: the order of locks, audit entries, and scheduling the checks, which
  the reconciler alone writes.
- `verdicts` reads the facts that verdicts follow from, for the reconciler and for views; `views` shows exceptions.
"""
