"""Jobs: what a wake-up can name, how workers run it, and the sweep."""
