"""Exports: a suite as Parquet, as a folder for fev, or as one for GluonTS (whatif-v1.md §8).

And a suite of episodes as dotime's loader reads it.

Writing needs none of the libraries that read the result.
"""

from .episodes import export_episodes
from .errors import ExportError
from .exporter import FORMATS, export

__all__ = ["FORMATS", "ExportError", "export", "export_episodes"]
