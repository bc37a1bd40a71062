"""The numbers by which series are synthesised: read from a file, held as arrays.

References:
    series.toml, which says what each number means.
"""

import functools
import tomllib
from pathlib import Path
from typing import Annotated, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..._types import Array, Float, FloatScalar

__all__ = [
    "COMPONENTS",
    "KERNELS",
    "LINKS",
    "SERIES_FILE",
    "SeriesFamily",
    "SeriesFile",
    "Switched",
    "augmentation",
    "missingness",
    "read_series_file",
    "series_family",
]

SERIES_FILE = Path(__file__).with_name("series.toml")

Share = Annotated[float, Field(ge=0, le=1)]
Range = tuple[float, float]


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


class _AugmentationShares(_Table):
    warp: Share
    mixing: Share
    sign: Share
    scale: Share
    shift: Share
    noise: Share


class _AugmentationLogRanges(_LogRanges):
    scale: Range
    noise: Range


class _AugmentationRanges(_Ranges):
    mixing: tuple[Share, Share]
    shift: Range
    warp: tuple[Share, Share]
    zoom: tuple[Share, Share]


class _Augmentation(_Table):
    shares: _AugmentationShares
    log_ranges: _AugmentationLogRanges
    ranges: _AugmentationRanges


class _MissingShares(_Table):
    spans: Share
    points: Share


class _MissingLogRanges(_LogRanges):
    span: tuple[Share, Share]
    points: tuple[Share, Share]


class _Missing(_Table):
    shares: _MissingShares
    log_ranges: _MissingLogRanges


class SeriesFile(_Table):
    """A file as series.toml."""

    version: Annotated[int, Field(ge=1)]
    synthetic: _Synthetic
    augmentation: _Augmentation
    missing: _Missing


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


class Switched(eqx.Module):
    """Numbers of changes that are made or not: how often each is, and how far it may go."""

    shares: dict[str, FloatScalar]
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
    return _family(_default_file() if file is None else file)


@functools.cache
def _default_file() -> SeriesFile:
    return read_series_file()


def augmentation(file: SeriesFile | None = None) -> Switched:
    """How series are augmented by a file; by series.toml by default."""
    table = (_default_file() if file is None else file).augmentation
    return Switched(_numbers(table.shares), _numbers(table.log_ranges), _numbers(table.ranges))


def missingness(file: SeriesFile | None = None) -> Switched:
    """Which steps a file has missing; series.toml by default."""
    table = (_default_file() if file is None else file).missing
    return Switched(_numbers(table.shares), _numbers(table.log_ranges), {})


def _number(value: object) -> Array:
    return jnp.asarray(np.asarray(value, np.float32))


def _numbers(table: BaseModel) -> dict[str, Array]:
    return {name: _number(value) for name, value in table}


def _family(file: SeriesFile) -> SeriesFamily:
    def shares(table: BaseModel) -> Array:
        return _number([share for _, share in table])

    synthetic = file.synthetic
    return SeriesFamily(
        components=shares(synthetic.components),
        links=shares(synthetic.links),
        kernels=shares(synthetic.kernels),
        switches=_numbers(synthetic.switches),
        typical_periods=_number(synthetic.typical_periods),
        log_ranges=_numbers(synthetic.log_ranges),
        ranges=_numbers(synthetic.ranges),
    )
