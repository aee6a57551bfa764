"""The vocabulary of the audit log, its differences, and its hash chain."""
