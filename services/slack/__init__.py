"""Slack: workspaces, people's Slack users and channels.

An organisation is connected to one workspace, and a workspace to one organisation. Slack is a copy of what the service
knows: no request about freezes waits for it.
"""
