"""Repositories and watched branches: list, enable, watch, and follow what appears at GitHub.

The set of watched branches, the freezes that cover them and the plan's quota always agree: changes hold the
organisation's coverage lock. A branch that a rule may block is never left without a verdict.
"""
