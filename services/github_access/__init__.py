"""How every job and request reaches GitHub: clients, pauses, the rate limiter, failures, back-off.

One installation has one budget: whatever calls GitHub for it goes through this package.
"""
