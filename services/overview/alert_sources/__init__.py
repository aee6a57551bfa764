"""Sources of alerts, a module for each subject; `union.py` makes one query of them."""
