"""Notifications: `dispatch.py` reads the sealed audit for each destination and gives its channel the events.

Each channel has its own work queue and background job, so that a slow destination holds up no other, and no freeze.
"""
