"""The forecaster that `python -m training` trains, from an exported checkpoint."""

from pathlib import Path

from whatif_jax import TrainedForecaster

from .settings import Place, checked_settings

__all__ = ["CHECKPOINT", "make"]

# where the checkout keeps its own
CHECKPOINT = Path(__file__).resolve().parents[2] / "training" / "checkpoints" / "tiny"


@checked_settings
def make(checkpoint: Place = None) -> TrainedForecaster:
    """A trained model.

    Args:
        checkpoint: folder that `python -m training export` wrote; None: the checkout's own.

    Raises:
        ValueError: no such folder, or files in it that do not belong together.
    """
    from training import load_forecaster

    return load_forecaster(CHECKPOINT if checkpoint is None else checkpoint)
