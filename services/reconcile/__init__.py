"""The reconciler brings the checks on GitHub to what the database says.

`reconciler.py` runs a pass: `leases.py` acquires due branches, `heads.py` reads their open heads, `mirror.py` and
`tracked_heads.py` save what was read, `evaluation.py` gives verdicts, `check_writes.py` sends them, `write_intents.py`
and `outcomes.py` record them. What other domains do meanwhile are `observers.py`.

`docs/reconciler.md` explains it.
"""
