"""`make run`: the whole service on this machine, with something to look at. See `__main__` for the order of events."""
