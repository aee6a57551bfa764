"""Alerts: conditions that need a person's attention. At most one alert per key is open in an organisation."""
