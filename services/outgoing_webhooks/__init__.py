"""Outgoing webhooks: endpoints of organisations, messages for them, and their delivery.

A message is the JSON of one event for one endpoint. It is written once, and sent byte for byte as it is until the
endpoint takes it, with one id for all attempts. Endpoints are servers of others, which may hang, fail or answer
anything: no transaction is open during a call, and the threads of a process and of an organisation are limited.
"""
