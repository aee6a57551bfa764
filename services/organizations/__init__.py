"""Organisations, their members and invitations.

An organisation always has at least one owner. An invitation is bound to the e-mail address that it was sent to.
Changes of members and invitations of one organisation are serialized by its row lock.
"""
