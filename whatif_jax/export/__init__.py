"""Exports: a suite as Parquet, as a folder for fev, or as one for GluonTS (whatif-v1.md §8).

Writing needs none of the libraries that read the result.
"""

from .errors import ExportError
from .exporter import FORMATS, export

__all__ = ["FORMATS", "ExportError", "export"]
