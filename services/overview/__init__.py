"""The overview and the attention list: summaries over every other package."""
