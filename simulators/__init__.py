"""Runners of the four real simulators: run once, series cached as baseline files (SPEC §2, §8).

Command line: `python -m simulators build sumo`, `python -m simulators check epanet`.
"""
