"""Deleted organisations: the deletion, the withdrawal of their rules at GitHub, the purge of their rows."""
