"""Print the table of metrics."""

import sys

from app.metrics.families import table

if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
