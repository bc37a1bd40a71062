"""Independent float64 NumPy reading of whatif-v1.md §2-§8; shares no code with whatif_jax."""
