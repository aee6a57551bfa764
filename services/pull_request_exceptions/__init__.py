"""Exceptions: the one pull request that may merge during a freeze, with a name and a reason on it.

- `requesting` and `granting` make rows, one for each freeze that covers the base, under one request group: all or
  none. `deciding` and `revoking` act on what is still open of a group.
- Whoever changes an exception locks in one order (`locking`): the freezes, the branch, the exceptions. A freeze that
  ends meanwhile, one that starts, another decision and another grant are so seen, or wait.
- A state is never stored: `rules.freezes.pull_request_exceptions.state_of` derives it from instants, so that an
  exception ends to the second when its time has come or its freeze has ended, whoever records that and when.
- Each change raises the generation of the branch and wakes the reconciler, which alone writes checks.
- `holding` says what exceptions allow, to the reconciler and to whoever shows pull requests: a commit passes a freeze
  if every pull request that lands with it does. It fails closed: exceptions that cannot be read allow nothing.
- `ending` records what time, the end of a freeze, or a push to something pinned has ended; `sweeping` has the sweeper
  do it, and a pass of the reconciler for the pushes that it sees, in the transaction in which it sees them.
- `pressing` takes requests from the check's own button; `using` notes which merge an exception has allowed.
"""
