"""Speed, measured as ratios within one run: `python -m tests.benchmarks generate`."""
