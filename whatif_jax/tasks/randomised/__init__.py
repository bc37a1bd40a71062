"""Randomised worlds: drawn responses on drawn series, with nothing of the benchmark in them."""
