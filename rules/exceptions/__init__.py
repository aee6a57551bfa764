"""Exceptions by rule: the language of rules, the facts that rules read, and whether a pull request matches."""
