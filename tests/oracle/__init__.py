"""Independent float64 NumPy reading of SPEC §2-§8; shares no code with whatif_jax."""
