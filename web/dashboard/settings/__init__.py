"""Pages of the organisation's settings: name and rules, people, keys, calendar feeds, and its end."""
