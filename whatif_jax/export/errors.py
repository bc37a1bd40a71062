"""The error of exports."""

__all__ = ["ExportError"]


class ExportError(RuntimeError):
    """An export cannot be begun, continued or verified."""
