"""Events: what channels of notification are given, and the destinations that they go to.

`event.py` has what happened, `destinations.py` adds, changes and removes where it goes. `services/notifications` reads
the audit for each destination, and gives its channel the events.
"""
