"""Whether GitHub refuses what freezes forbid: the facts of branches, read as of one instant, and their counts."""
