"""Mails to members: `choices.py` is what each of them chose, `notices.py` writes the mails of events.

An organisation has one destination for the mails to its members, with its own id. One mail holds all events that reach
a person at once. The job `mail` delivers it from the outbox, beside all other mails.
"""
