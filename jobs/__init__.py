"""RQ wake-ups and the sweeper: thin, like handlers."""
