"""GitHub's REST API: routes, credentials, answers."""
