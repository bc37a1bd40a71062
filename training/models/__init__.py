"""Architectures: each takes `ForecastInputs` and returns nine quantiles in the target's unit."""
