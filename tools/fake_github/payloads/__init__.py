"""GitHub's JSON shapes, made from the records."""
