"""Installations of the GitHub App: claim one, refresh its status, request a sync, show it.

An organisation has at most one installation that is not removed. Claiming it requires proof from GitHub that the
person administers its account. Status changes always follow GitHub's API, never a webhook payload.
"""
