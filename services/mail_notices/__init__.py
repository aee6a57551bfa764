"""Mails to members: `choices.py` is what each of them chose, `notices.py` writes the mails of events.

An organisation has one destination for the mails to its members; its id is the organisation's. One mail holds all
events that reach a person at once. The job `mail` delivers it from the outbox, like all other mails.
"""
