"""Exceptions by rule.

- `changes` creates, changes and deletes rules, `validation` says what is wrong with one, `identities` asks GitHub whom
  it names, and `views` has rules as clients see them.
"""
