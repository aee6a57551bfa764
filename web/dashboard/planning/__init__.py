"""Pages of what is planned: schedules, their import, the calendar of a month, and the timeline."""
