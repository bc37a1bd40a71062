"""Exports: a suite as Parquet, as a folder for fev, or as one for GluonTS (SPEC §8).

Writing needs none of the libraries that read the result.
"""

from .errors import ExportError
from .run import FORMATS, export

__all__ = ["FORMATS", "ExportError", "export"]
