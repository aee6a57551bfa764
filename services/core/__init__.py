"""What all services share: unit of work, clock, pagination, look-ups, encryption, tokens, batches.

The lowest level of `services/`: it imports no other package of it. It promises one transaction per unit of work, one
`now` per transaction, and that wake-ups leave only after the commit.
"""
