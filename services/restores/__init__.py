"""A database that was restored from a backup: noticed by itself, and confirmed by an operator.

`restores.py` notices and confirms, `preview.py` lists what confirming would release. In between nothing is released at
GitHub: `services/reconcile/evaluation.py` withholds every `success`, `github_access` every change of rules.
"""
