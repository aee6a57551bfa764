"""Measurements, as ratios taken side by side in one run: `python -m tools.bench` runs them all.

Machines are noisy and never alike, so throughput and CPU are compared with what a bare framework needs for the same
work, in alternating rounds; latencies are absolute, and printed with the machine.
"""
