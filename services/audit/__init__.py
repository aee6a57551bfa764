"""The audit: who changed what, when and why. `UnitOfWork.audit` writes an entry together with the change.

- Append-only: no database role of the service may update an entry or a seal, or delete one except with all data of a
  deleted organisation.
- Writers do not wait for each other: an entry is an insert, and a trigger adds it to a queue (`audit_unsealed`).
- The sealer (`hash_chain.py`) takes committed entries from the queue and numbers them per organisation, each with a
  hash of the entry and of the previous seal (`rules/audit/hash_chain.py`). The number is assigned after the commit, so
  no entry ever appears before a position that a reader has already passed.
- `python -m app audit verify` verifies the chain (`verification.py`).
- The plan's retention is applied when entries are read (`filters.py`): a better plan shows more, and nothing is erased.
"""
