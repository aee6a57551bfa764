"""Measurements, taken side by side in one run since machines are never alike: `python -m tools.bench` runs them."""
