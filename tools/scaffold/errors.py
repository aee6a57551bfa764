"""Why an operation cannot be scaffolded."""


class ScaffoldError(Exception):
    """Nothing was written; the message says why."""
