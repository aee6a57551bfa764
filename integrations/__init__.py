"""Clients of the systems around us."""
