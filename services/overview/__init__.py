"""The overview, the list of alerts and the steps to the first freeze: summaries of what all other packages store."""
