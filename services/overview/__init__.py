"""The overview and the list of alerts: summaries of what all other packages store."""
