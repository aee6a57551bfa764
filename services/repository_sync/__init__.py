"""Comparing the mirror of repositories with what GitHub shows for an installation."""
