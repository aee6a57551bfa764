"""Notifications: `dispatch.py` reads the sealed audit for each destination and gives its channel the events.

Each channel has its own work queue and job, so that a slow destination delays neither the others nor freezes.
"""
