"""Exceptions by rule.

- `changes` creates, changes and deletes rules, `validation` says what is wrong with one, `identities` asks GitHub whom
  it names, and `views` has rules as clients see them. `drafts` shows what one that is not saved
  would let in, which `preview` finds out.
- `applicable` finds the rules that apply to frozen branches, `facts` reads from GitHub what they ask for, `granting`
  grants and revokes exceptions by them, and `in_passes` finds the pull requests that a pass of the reconciler judges.
"""
