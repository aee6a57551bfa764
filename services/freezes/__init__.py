"""Freezes: start and end, targets, completion, views, the state that pipelines poll, scopes."""
