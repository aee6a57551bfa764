"""What operators run: `python -m app audit | support | plan`, with the configuration of the service."""
