"""Score forecasters on a suite and report: `python -m eval run | report | list`.

Works on top of `whatif_jax`, which imports nothing from here. Data flows one way: task, forecast,
scores, report.
"""
