"""Enforcement: whether GitHub's rules really make our checks block merges, and writing those rules."""
