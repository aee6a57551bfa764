"""Enforcement: whether the code host's rules really make our checks block, and writing those rules."""
