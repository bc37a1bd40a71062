"""The report: one page, figures and tables of the results. `write.write_report` makes all of it."""

from importlib.util import find_spec

for _module in ("jinja2", "matplotlib", "polars"):
    if find_spec(_module) is None:
        raise ImportError(f"{_module} is not installed; pip install -e '.[eval]'")
