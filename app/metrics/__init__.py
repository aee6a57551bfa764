"""The metrics of the processes: counted, sampled or read from the database, and served over HTTP.

`python -m app.metrics` prints the table of metrics.
"""
