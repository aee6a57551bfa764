"""Onboarding: the steps from sign-up to the first freeze, derived from the current state and never stored."""
