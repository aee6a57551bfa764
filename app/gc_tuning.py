"""What a process was built of is put aside, so that collecting garbage need not look at it.

Python looks for circles of garbage by walking through everything alive, while every thread waits. Libraries, the
contract and its schemas are two hundred thousand objects that stay to the end: they take 150 ms of a whole walk, while
no request of the process is answered, and the rest takes a few. Answers of a hundred rows bring walks about.
"""

import gc

from sqlalchemy.orm import configure_mappers


def freeze_gc() -> None:
    """Never walk again through what there is now; called once, when a process is built and has not begun to serve."""
    configure_mappers()  # else the first query does it, too late to be put aside
    gc.collect()
    gc.freeze()
