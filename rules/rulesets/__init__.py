"""Rulesets at GitHub: what they must contain, what is found wrong with them, how they are written and shown."""
