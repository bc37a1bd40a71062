"""The prior: what randomised tasks are drawn from, as a file of ranges and shares.

References:
    prior.toml, beside this file.
"""

import functools
import hashlib
import json
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationError

from ...catalog.entry import Entry
from ...catalog.fields import FLOAT32, Count, FrozenMapping, NotNegative, Number, must
from .names import FORMS, HARD_CASES, REGIONS, SHAPES, SOURCES
from .series_family import read_series_file

__all__ = ["Prior", "contents_of", "load_prior"]


def _kinds(known: tuple[str, ...]) -> AfterValidator:
    def holds(shares: Mapping[str, float]) -> bool:
        return set(shares) <= set(known) and sum(shares.values()) > 0

    return must(f"a table of shares, some above 0, for some of {', '.join(known)}", holds)


Probability = Annotated[float, Field(ge=0, le=1), FLOAT32]
Table = Annotated[Mapping[str, NotNegative], AfterValidator(FrozenMapping)]
Range = Annotated[tuple[Number, Number], must("[low, high], low < high", lambda r: r[0] < r[1])]
NotNegativeRange = Annotated[
    tuple[Number, Number], must("[low, high], 0 <= low < high", lambda r: 0 <= r[0] < r[1])
]
PositiveRange = Annotated[
    tuple[Number, Number], must("[low, high], 0 < low < high", lambda r: 0 < r[0] < r[1])
]
ShareRange = Annotated[
    tuple[Number, Number],
    must("[low, high], 0 <= low < high <= 1", lambda r: 0 <= r[0] < r[1] <= 1),
]
Between = Annotated[float, Field(gt=0, lt=1), FLOAT32]
MOST_COVARIATES = 64
MOST_EVENTS = 64


def _counts(most: int) -> AfterValidator:
    def holds(ends: tuple[int, int]) -> bool:
        return 1 <= ends[0] <= ends[1] <= most

    return must(f"[low, high], 1 <= low <= high <= {most}", holds)


class SeriesPrior(Entry):
    """Intervention-free series."""

    source: Annotated[Table, _kinds(SOURCES)]


class CovariatesPrior(Entry):
    """Covariates of a task."""

    number: Annotated[tuple[Count, Count], _counts(MOST_COVARIATES)]
    base: PositiveRange
    direct: Probability


class EventsPrior(Entry):
    """Layout and shapes of past events."""

    number: Annotated[tuple[Count, Count], _counts(MOST_EVENTS)]
    length: ShareRange
    shortest: Count
    prefix: ShareRange
    end: ShareRange
    irregular: Probability
    unequal: Probability
    shapes: Annotated[Table, _kinds(SHAPES)]
    one_shape: Probability


class FactorsPrior(Entry):
    """Factors of past events."""

    span: PositiveRange
    least: Between
    one_way: Probability
    together: Probability
    same_dose: Probability


class FuturePrior(Entry):
    """Futures: replays and novel ones."""

    novel: Probability
    raising: Probability
    raise_: PositiveRange = Field(alias="raise")
    shrink: ShareRange


class ResponsePrior(Entry):
    """Responses."""

    forms: Annotated[Table, _kinds(FORMS)]
    offset: Probability
    overhead: Probability
    exponent: PositiveRange
    signed_exponent: PositiveRange
    whole: ShareRange
    part: ShareRange
    slope: PositiveRange
    cubic: PositiveRange
    rate: PositiveRange
    angle: PositiveRange
    dip: ShareRange
    signed: PositiveRange
    overhead_slope: PositiveRange
    acts: Annotated[Table, _kinds(REGIONS)]
    largest: PositiveRange
    largest_secondary: PositiveRange
    lowest: Between
    weight: PositiveRange
    additive: Probability
    undamped: Probability
    damping: PositiveRange
    floor: ShareRange


class HardCaseShares(Entry):
    """How often each hard case is drawn."""

    irrelevant: Probability
    correlated: Probability
    saturation: Probability
    overlapping: Probability
    delayed: Probability
    regime: Probability
    noise: Probability
    missing: Probability
    wandering: Probability


class Irrelevant(Entry):
    """Covariates that do nothing."""

    share: ShareRange


class Correlated(Entry):
    """A covariate that follows the target and does nothing."""

    amplitude: ShareRange


class Saturation(Entry):
    """A limit of the target."""

    room: PositiveRange


class Overlapping(Entry):
    """Covariates whose events start apart."""

    shift: Probability


class Delayed(Entry):
    """Effects that begin late, build up and decay."""

    lag: ShareRange
    decay: PositiveRange


class Regime(Entry):
    """Constants that change at a step of the history."""

    strength: PositiveRange


class Noise(Entry):
    """Noise of the measured target."""

    amount: PositiveRange


class Wandering(Entry):
    """Covariates that move between events."""

    amount: Annotated[PositiveRange, must("[low, high], high < 1", lambda r: r[1] < 1)]


class Prior(Entry):
    """What randomised tasks are drawn from; `prior.toml` says what each field means."""

    version: Count
    """A whole number: of the prior; another one stands for other draws."""
    series: SeriesPrior
    covariates: CovariatesPrior
    events: EventsPrior
    factors: FactorsPrior
    future: FuturePrior
    response: ResponsePrior
    hard_cases: HardCaseShares
    irrelevant: Irrelevant
    correlated: Correlated
    saturation: Saturation
    overlapping: Overlapping
    delayed: Delayed
    regime: Regime
    noise: Noise
    wandering: Wandering


assert set(HARD_CASES) == set(HardCaseShares.model_fields)


def load_prior(source: "Prior | str | Path | None" = None) -> Prior:
    """The prior of a file, or the library's own.

    Args:
        source: path of a TOML file with the fields of `prior.toml`; a `Prior`, which is returned;
            or None for the library's.

    Raises:
        ValueError: the file cannot be read, is no TOML, or has faults: all of them, each with its
            field, its value and what was expected.
    """
    if isinstance(source, Prior):
        return source
    if source is None:
        return _own()
    if not isinstance(source, str | Path):
        raise ValueError(f"prior: {source!r}; expected a Prior, the path of a TOML file, or None")
    try:
        text = Path(source).read_text("utf-8")
    except OSError as error:
        raise ValueError(f"prior: {source}: {error.strerror}; expected a readable file") from None
    except ValueError as error:
        raise ValueError(f"prior: {source}: {error}; expected TOML in UTF-8") from None
    return _parsed(text, str(source))


def contents_of(prior: Prior) -> str:
    """SHA-256 of all numbers that decide draws: the prior's and those of series.toml."""
    numbers = [dict(entry) for entry in (prior, read_series_file())]
    return hashlib.sha256(json.dumps(numbers, default=dict).encode()).hexdigest()


@functools.cache
def _own() -> Prior:
    return _parsed((files(__package__) / "prior.toml").read_text("utf-8"), "prior.toml")


def _parsed(text: str, name: str) -> Prior:
    try:
        return Prior.model_validate(tomllib.loads(text))
    except ValidationError as error:
        faults = []
        for line in error.errors(include_url=False):
            value = "missing" if line["input"] is None else repr(line["input"])[:100]
            field = ".".join(map(str, line["loc"]))
            faults.append(f"{field}: {value}; expected {line['ctx']['error']}")
        raise ValueError(f"prior: {name}: {'; and '.join(faults)}") from None
    except (ValueError, RecursionError) as error:  # of the parser
        raise ValueError(f"prior: {name}: {error}; expected TOML in UTF-8") from None
