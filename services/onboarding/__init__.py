"""The steps from sign-up to the first freeze."""
