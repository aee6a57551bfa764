"""What people read and write in Slack: messages, forms, commands, and the payloads of clicks. Pure functions."""
