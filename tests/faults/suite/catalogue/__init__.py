"""The faults, by what breaks; every module here is found by itself."""
