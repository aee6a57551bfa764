"""Bringing the code host to what the database says: the reconciler.

What it promises ---------------- - **At rest, every open head of a watched branch carries the verdict of the database
(I1).** A branch is due whenever its `wanted_generation` has risen; a pass reads the open heads, judges each one
*now*, and writes what differs. - **A `success` needs a committed evaluation whose lease held at the last look before
sending (I3).** `judging.py` reads freezes, exceptions and leases in one transaction right before a batch is sent;
every path that fails writes nothing, and what is not written blocks. Exceptions that cannot be read allow nothing. -
**An older decision is never recorded over a newer one (I2).** Evaluations are numbered by a database sequence; a
record is replaced by a higher number only, and only while the lease of its branch holds. - **No transaction spans a
call to the code host**, and losing Redis or a worker loses nothing: what is due, leased and tried is in PostgreSQL; a
lease that ran out is taken over by the next claim.

The race that is accepted ------------------------- A worker can be paused between its last look and its sending;
GitHub has no conditional write. Its old verdict then arrives late. It is found in three ways: by the late worker
itself, whose record is refused, and which has the branch read back; by the doubt that is committed before a `success`
is sent (`doubts.py`), so that a head which nobody can merge any more is demoted all the same; and by whoever takes
over the lease that ran out, who reads back at once and again a little later. What is left is a worker that is paused
for longer than its lease and killed right after it has sent: its verdict stands until the next full pass, and on a
head that was given up meanwhile, until that head is opened again and looked at.

Two workers can also be at one head at the same time, on account of two branches that share it under one check name. A
slow call of the one then arrives after the newer verdict of the other. The code host numbers runs as they arrive:
where that order is not the order of the evaluations, whoever records finds it out and has the head read back at once.
What one of them has seen of the head since the other looked is read with every judgement, or finds the other's doubt.

A pass ------ `claims.py` leases due branches of one installation, the most mergeable first → `looking.py` reads their
open heads and refreshes the mirror of pull requests → `heads.py` and `following.py` gather, for each head and check
name, every way it could be merged, and what has fallen out → `judging.py` gives verdicts and says which differ →
`writing.py` sends them in batches → `recording.py` records, finishes branches, and keeps the receipts of the targets.
`passes.py` runs it; the receipts of whole freezes are given by `services/freezes/completion.py`.

Order and limits ---------------- What could merge first is written first, over all branches of an installation: a
pass that has come to heads which are less urgent than a branch it has not claimed gives its branches back, with the
urgency of what is left. It also makes way to another installation after a second of writing, so that no fan-out
delays another (I12). Every call is written down before it is made (`services/github_access/rate_limiter.py`,
`rules/rate_budget.py`), and waits while the code host's secondary limits leave no room: we obey a refusal, but do not
cause one. Other jobs have a share of the same room, so that no fan-out waits for them.
"""
