"""Repositories and branches: listing, enabling, watching."""
