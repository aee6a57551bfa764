"""Periodic tasks of the sweep: record ends, repair lost work, request full resyncs; the deletion of old rows.

Every task is idempotent and safe with any number of processes.
"""
