"""Mail: the outbox that transactions write to, and its delivery."""
