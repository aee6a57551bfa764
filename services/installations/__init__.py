"""Installations of the GitHub App: their state, who claims them, how they are shown."""
