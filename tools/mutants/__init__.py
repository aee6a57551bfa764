"""Mutants of the rules that matter, and whether the tests notice them."""
