"""Exceptions: the one pull request that may merge during a freeze, with a name and a reason on it.

- `requesting` and `granting` make rows, one for each freeze that covers the base, under one request group: all or
  none. `deciding` and `revoking` act on what is still open of a group.
- Whoever changes an exception locks in one order (`locking`): the freezes, the branch, the exceptions. A freeze that
  ends meanwhile, one that starts, another decision and another grant are so seen, or wait.
- A state is never stored: `rules.exceptions.state_of` tells it from instants, so that an exception ends to the second
  when its time has come or its freeze has ended, whoever records that and when.
- Each change raises the generation of the branch and wakes the reconciler, which alone writes checks.
"""
