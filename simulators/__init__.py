"""Runners of the four real simulators: run once, series cached (whatif-v1.md §2, §8).

Command line: `python -m simulators build sumo`, `python -m simulators check epanet`.
"""
