"""Training-only series: the simulators at settings other than the benchmark's.

`python -m simulators build --training` makes the runs listed in the TOML files here, one after the
other, and writes the files that `whatif_jax.tasks.randomised` reads. No run shares a network, a
house, a month of weather, a road or a virtual machine with the benchmark.
"""
