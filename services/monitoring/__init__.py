"""What operators see of the service: the metrics, and the facts in the database that some of them show."""
