"""Development and operator commands."""
