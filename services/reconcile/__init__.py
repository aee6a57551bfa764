"""The reconciler brings the checks on GitHub to what the database says.

`reconciler.py` runs a pass: `leases.py` acquires due branches, `heads.py` reads their open heads, `mirror.py` and
`tracked_heads.py` save what was read, `evaluation.py` gives verdicts, `write_intents.py` announces writes,
`write_order.py` and `check_writes.py` send them, `check_records.py` and `outcomes.py` record them and release the
branches. `read_backs.py` requests that branches are read back, and `observers.py` are what other domains do meanwhile.

`docs/reconciler.md` explains it.
"""
