"""Pages for people, served by Flask beside the API."""
