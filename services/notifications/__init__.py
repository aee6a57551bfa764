"""Notifications: `dispatch.py` reads the sealed audit for each destination and gives its channel the events.

`mail_notices.py` writes the mails to members, `mail_choices.py` is what each of them chose. An organisation has one
destination for these mails; its id is the organisation's. The job `mail` delivers them from the outbox.

Each channel has its own work queue and job, so that a slow destination delays neither the others nor freezes.
"""
