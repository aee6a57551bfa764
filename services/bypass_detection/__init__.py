"""Commits that reached a frozen branch: found, explained by an exception, or reported as a bypass."""
