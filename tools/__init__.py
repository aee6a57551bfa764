"""Development tools; none of them is part of the running service."""
