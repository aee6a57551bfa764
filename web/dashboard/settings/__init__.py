"""Pages of the settings: the organisation, members, API keys, calendar feeds, webhooks, and notifications."""
