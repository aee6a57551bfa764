"""The reconciler brings the checks on GitHub to what the database says.

`reconciler.py` runs a pass: `leases.py` acquires due checks, `mirror.py` saves what was read of their branches,
`heads.py` finds the heads, `evaluation.py` gives verdicts, `write_order.py` and `check_writes.py` send them,
`check_records.py` announces and records them, and `outcomes.py` releases the checks. `read_backs.py` requests that
checks are read back.

`docs/reconciler.md` explains it.
"""
