"""The audit: who did what, when and why. Entries are written by `Unit.audit`, with the change that they tell of.

- Append-only: no role that the service takes on may change an entry or a seal, or remove one but with the data of an
  organisation that was deleted.
- No writer waits for another: an entry is an insert, and a trigger puts it into a queue (`audit_unsealed`).
- The sealer (`sealing.py`) takes committed entries from the queue and numbers them, organisation by organisation, each
  with a hash of the entry and of the seal before (`rules/audit/hash_chain.py`). A number is given after the commit, so
  nothing ever appears before a place that somebody has read up to.
- `python -m app audit verify` proves the chain (`verifying.py`).
- What a plan keeps is applied when the list is read (`filters.py`): a better plan shows more, and nothing is erased.
"""
