"""Print the table of metrics."""

import sys

from services.monitoring.families import table

if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
