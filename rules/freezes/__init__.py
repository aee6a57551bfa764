"""What a freeze covers and blocks: scopes, globs, verdicts, check names and texts, exceptions, bypasses."""
