"""The control plane under `/_control/`: faults, settings, counters, seeding. For loopback development only."""
