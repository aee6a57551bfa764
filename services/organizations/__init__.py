"""Organisations, their members, invitations and plans."""
