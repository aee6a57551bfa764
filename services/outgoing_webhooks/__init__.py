"""Outgoing webhooks: endpoints of organisations, messages for them, and their delivery.

A message is the JSON of one event for one endpoint. It is written once, and sent byte for byte as it is until the
endpoint takes it, with one id for all attempts. Endpoints of others hang, lie and fail: no transaction is open during a
call, the threads are bounded, and no organisation has more than its part of them.
"""
