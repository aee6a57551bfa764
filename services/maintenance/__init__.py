"""Periodic tasks of the sweeper: record ends, repair lost work, delete old rows, request full resyncs.

Every task is idempotent and safe with any number of sweepers.
"""
