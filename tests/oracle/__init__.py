"""Independent float64 NumPy reading of SPEC §2-§6 and §8; shares no code with whatif_jax."""
