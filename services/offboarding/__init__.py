"""Offboarding of deleted organisations: deletion, withdrawal of their rules at GitHub, purge of their data."""
