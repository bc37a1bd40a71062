"""The numbers by which series are synthesised: read from a file, held as arrays.

References:
    series.toml, which says what each number means.
"""

import functools
import tomllib
from pathlib import Path
from typing import Annotated, Self

import equinox as eqx
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..._types import Array, Float, FloatScalar

__all__ = [
    "COMPONENTS",
    "KERNELS",
    "LINKS",
    "SERIES_FILE",
    "SeriesFamily",
    "read_series_file",
    "series_family",
]

SERIES_FILE = Path(__file__).with_name("series.toml")

Share = Annotated[float, Field(ge=0, le=1)]
Range = Annotated[tuple[float, float], Field()]


class _Table(BaseModel):
    """A table of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class _Ranges(_Table):
    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for name, (low, high) in self:
            if low > high:
                raise ValueError(f"{name}: {[low, high]}; expected [lowest, highest]")
        return self


class _LogRanges(_Ranges):
    @model_validator(mode="after")
    def _positive(self) -> Self:
        for name, (low, high) in self:
            if low <= 0:
                raise ValueError(f"{name}: {[low, high]}; expected numbers above 0")
        return self


class _Choice(_Table):
    """Shares of kinds of which each series has one."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        total = sum(share for _, share in self)
        if abs(total - 1) > 1e-6:
            raise ValueError(f"a sum of {total:g}; expected shares with a sum of 1")
        return self


class _Components(_Table):
    trend: Share
    seasons: Share
    profile: Share
    autoregressive: Share
    random_walk: Share
    gaussian_process: Share
    level_shifts: Share


class _Switches(_Table):
    constant: Share
    noise: Share
    pulses: Share
    intermittent: Share
    standby: Share
    cycling: Share
    resolution: Share
    piecewise: Share
    typical_period: Share
    on_off_profile: Share
    held_profile: Share
    weekend: Share
    saturated: Share


class _Links(_Choice):
    level: Share
    around_zero: Share
    exponential: Share
    rectified: Share
    softplus: Share
    count: Share
    unit: Share
    percent: Share


class _Kernels(_Choice):
    squared_exponential: Share
    periodic: Share
    locally_periodic: Share
    rational_quadratic: Share


class _SyntheticLogRanges(_LogRanges):
    magnitude: Range
    spread: Range
    constant_spread: Range
    noise: Range
    mean_count: Range
    period: Range
    cycle: Range
    gate_length: Range
    kernel_length: Range
    periodic_length: Range
    memory: Range
    pulse_memory: Range
    pulse_rate: Range
    resolution: Range
    standby: Range


class _SyntheticRanges(_Ranges):
    weight: Range
    harmonic_decay: Range
    knot_power: Range
    duty: Range
    weekend: Range
    bend: Range
    offset: Range
    bounded_level: Range
    bounded_bend: Range
    pulse_height: Range
    on_share: Range
    cycle_regularity: Range
    moving_average: Range


class _Synthetic(_Table):
    components: _Components
    switches: _Switches
    links: _Links
    kernels: _Kernels
    typical_periods: Annotated[tuple[Annotated[float, Field(gt=1)], ...], Field(min_length=1)]
    log_ranges: _SyntheticLogRanges
    ranges: _SyntheticRanges


class SeriesFile(_Table):
    """A file as series.toml."""

    version: Annotated[int, Field(ge=1)]
    synthetic: _Synthetic


COMPONENTS = tuple(_Components.model_fields)
LINKS = tuple(_Links.model_fields)
KERNELS = tuple(_Kernels.model_fields)


class SeriesFamily(eqx.Module):
    """The numbers of a synthetic family as arrays, so that changing one compiles nothing anew."""

    components: Float[Array, " components"]  # shares, in the order of COMPONENTS
    links: Float[Array, " links"]  # shares, in the order of LINKS
    kernels: Float[Array, " kernels"]  # shares, in the order of KERNELS
    switches: dict[str, FloatScalar]  # shares
    typical_periods: Float[Array, " periods"]  # steps
    log_ranges: dict[str, Float[Array, "2"]]
    ranges: dict[str, Float[Array, "2"]]


def read_series_file(path: Path = SERIES_FILE) -> SeriesFile:
    """Read a file as series.toml.

    Raises:
        ValueError: the file cannot be read, is no TOML, or has faults: each with its field.
    """
    try:
        return SeriesFile.model_validate(tomllib.loads(path.read_text("utf-8")))
    except ValidationError as error:
        faults = "; and ".join(
            f"{'.'.join(map(str, line['loc']))}: {repr(line['input'])[:60]}; {line['msg']}"
            for line in error.errors(include_url=False)
        )
    except OSError as error:
        faults = f"{error.strerror}; expected a readable TOML file"
    except ValueError as error:  # of the parser, and of the decoder
        faults = f"{error}; expected TOML in UTF-8"
    raise ValueError(f"{path}: {faults}")


def series_family(file: SeriesFile | None = None) -> SeriesFamily:
    """The synthetic family of a file; of series.toml by default."""
    return _default_family() if file is None else _family(file)


@functools.cache
def _default_family() -> SeriesFamily:
    return _family(read_series_file())


def _family(file: SeriesFile) -> SeriesFamily:
    def numbers(table: BaseModel) -> dict[str, np.ndarray]:
        return {name: np.asarray(value, np.float32) for name, value in table}

    def shares(table: BaseModel) -> np.ndarray:
        return np.array([share for _, share in table], np.float32)

    synthetic = file.synthetic
    return SeriesFamily(
        components=shares(synthetic.components),
        links=shares(synthetic.links),
        kernels=shares(synthetic.kernels),
        switches=numbers(synthetic.switches),
        typical_periods=np.array(synthetic.typical_periods, np.float32),
        log_ranges=numbers(synthetic.log_ranges),
        ranges=numbers(synthetic.ranges),
    )
