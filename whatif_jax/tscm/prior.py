"""The prior: what temporal causal worlds are drawn from, as a file of ranges and shares.

References:
    prior.toml, beside this file; `DoTime` (arXiv:2607.27263) where it does not say ours.
"""

import functools
import hashlib
import json
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError, model_validator

from ..catalog.entry import Entry
from ..catalog.errors import one_of
from ..catalog.fields import FLOAT32, Count, Flag, FrozenMapping, NotNegative, Number, Whole, must
from .names import (
    GRAPHS,
    KINDS,
    MECHANISMS,
    NOISES,
    OBSERVATIONS,
    SELF_WEIGHTS,
    SHAPES,
    SINCE,
    VALUES,
)

__all__ = [
    "MOST_LAGS",
    "MOST_NODES",
    "Prior",
    "PriorFile",
    "Spread",
    "Structure",
    "contents_of",
    "load_prior",
    "mixture_of",
    "prior_names",
    "structures",
]

MOST_NODES = 64
MOST_LAGS = 8
MOST_REGIMES = 8


def _kinds(known: tuple[str, ...]) -> AfterValidator:
    def holds(shares: Mapping[str, float]) -> bool:
        return set(shares) <= set(known) and sum(shares.values()) > 0

    return must(f"a table of shares, some above 0, for some of {', '.join(known)}", holds)


def _one(known: tuple[str, ...]) -> AfterValidator:
    return must(f"one of {', '.join(known)}", lambda name: name in known)


def _counts(least: int, most: int) -> AfterValidator:
    def holds(ends: tuple[int, int]) -> bool:
        return least <= ends[0] <= ends[1] <= most

    return must(f"[low, high], {least} <= low <= high <= {most}", holds)


Probability = Annotated[float, Field(ge=0, le=1), FLOAT32]
Table = Annotated[Mapping[str, NotNegative], AfterValidator(FrozenMapping)]
Positive = Annotated[float, Field(gt=0), FLOAT32]
PositiveRange = Annotated[
    tuple[Number, Number], must("[low, high], 0 < low <= high", lambda r: 0 < r[0] <= r[1])
]
ShareRange = Annotated[
    tuple[Number, Number],
    must("[low, high], 0 < low <= high < 1", lambda r: 0 < r[0] <= r[1] < 1),
]


class Edges(Entry):
    """Edges of random graphs and chains."""

    beta: Annotated[tuple[Count, Count], _counts(1, 8)]
    decay: Probability
    floor: NotNegative
    power: NotNegative
    self_: Probability = Field(alias="self")


class Weights(Entry):
    """Standard deviations of weights and biases."""

    scale: NotNegative
    bias: NotNegative


class Spread(Entry):
    """A standard deviation: least + exponential of a mean + uniform of a width."""

    least: NotNegative
    exponential: NotNegative
    uniform: NotNegative


class Noises(Entry):
    """Noise of nodes without instantaneous parents, and of the others."""

    root: Spread
    other: Spread
    root_kinds: Annotated[Table, _kinds(NOISES)]
    kinds: Annotated[Table, _kinds(NOISES)]


class Regimes(Entry):
    """Regimes and how they follow one another."""

    number: Annotated[
        tuple[Count, ...],
        must(
            f"some numbers of 1 to {MOST_REGIMES}, in rising order",
            lambda n: n and list(n) == sorted(set(n)) and n[-1] <= MOST_REGIMES,
        ),
    ]
    stay: Annotated[Count, must("at most 32", lambda n: n <= 32)]
    move: Annotated[Count, must("at most 8", lambda n: n <= 8)]


class Stability(Entry):
    """What keeps episodes finite."""

    unit_rows: Flag
    radius: NotNegative
    limit: Annotated[Positive, must("a number up to 1000", lambda n: n <= 1000)]
    attempts: Count


class InterventionPrior(Entry):
    """Interventions."""

    kinds: Annotated[Table, _kinds(KINDS)]
    shapes: Annotated[Table, _kinds(SHAPES)]
    values: Annotated[Table, _kinds(VALUES)]
    two_targets: Probability
    single_step: Flag
    shortest: Count
    value: NotNegative
    shift: NotNegative


class Queries(Entry):
    """Which steps are asked for."""

    since: Annotated[str, _one(SINCE)]
    offsets: Annotated[tuple[Whole, ...], must("a list that is not empty", bool)]


class Times(Entry):
    """Steps before the first one, and continuous time."""

    burn_in: Whole
    continuous: Flag
    substeps: Count
    spacing: Positive
    observations: Annotated[Table, _kinds(OBSERVATIONS)]
    jitter: Annotated[float, Field(ge=0, lt=1), FLOAT32]
    decay: PositiveRange
    diffusion: PositiveRange
    window: ShareRange
    earliest: Annotated[float, Field(ge=0, lt=1), FLOAT32]


class Prior(Entry):
    """What one kind of world is drawn from; `prior.toml` says what each field means."""

    version: Count
    """A whole number: of the prior; another one stands for other draws."""
    graph: Annotated[str, _one(GRAPHS)]
    structure: str
    lagged_edges: Flag
    self_lags: Flag
    self_weights: Annotated[str, _one(SELF_WEIGHTS)]
    nodes: Annotated[tuple[Count, Count], _counts(2, MOST_NODES)]
    lags: Annotated[tuple[Count, Count], _counts(1, MOST_LAGS)]
    hidden: Probability
    edges: Edges
    weights: Weights
    mechanisms: Annotated[Table, _kinds(MECHANISMS)]
    noise: Noises
    regimes: Regimes
    stability: Stability
    intervention: InterventionPrior
    query: Queries
    time: Times

    @model_validator(mode="after")
    def _fits(self) -> "Prior":
        if self.graph == "structure" and self.structure not in structures():
            raise ValueError(f"structure = {one_of(structures(), self.structure)}")
        if self.graph == "random" and self.nodes[0] < 3:
            raise ValueError("at least 3 nodes where graphs are random")
        if self.time.continuous and max(self.regimes.number) > 1:
            raise ValueError("one regime in continuous time")
        return self


class Structure(Entry):
    """A named graph; nodes in topological order, edges as `parent>child`."""

    nodes: str
    now: str
    lagged: str = ""
    also_lagged: str = ""
    offset: Whole = 0

    def names(self) -> tuple[str, ...]:
        """The nodes."""
        return tuple(self.nodes.split())

    def pairs(self, edges: str) -> tuple[tuple[int, int], ...]:
        """(parent, child) numbers of some edges."""
        places = {name: place for place, name in enumerate(self.names())}
        found = [edge.split(">") for edge in edges.split()]
        return tuple((places[parent], places[child]) for parent, child in found)


class PriorFile(Entry):
    """A file of worlds, mixtures of them, and structures."""

    version: Count
    worlds: Annotated[Mapping[str, Any], AfterValidator(FrozenMapping)]
    mixtures: Annotated[Mapping[str, Table], AfterValidator(FrozenMapping)]
    structures: Annotated[Mapping[str, Structure], AfterValidator(FrozenMapping)]


@functools.cache
def _file() -> PriorFile:
    text = (files(__package__) / "prior.toml").read_text("utf-8")
    return PriorFile.model_validate(tomllib.loads(text))


def structures() -> Mapping[str, Structure]:
    """The named structures."""
    return _file().structures


def prior_names() -> tuple[str, ...]:
    """Names of worlds and mixtures; `structure:lagged edges` pairs are made by `load_prior`."""
    return (*_file().worlds, *_file().structures, *_file().mixtures)


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Tables of settings are changed field by field, tables of shares as a whole."""
    shares = {"mechanisms", "kinds", "root_kinds", "shapes", "values", "observations"}
    found = dict(base)
    for name, value in changes.items():
        inner = isinstance(value, Mapping) and name not in shares
        found[name] = _merged(base.get(name, {}), value) if inner else value
    return found


def _world(name: str) -> dict[str, Any]:
    own = dict(_file().worlds[name])
    like = own.pop("like", None)
    return own if like is None else _merged(_world(like), own)


@functools.cache
def _named(name: str) -> Prior:
    if name in _file().structures:
        table = _merged(_world("structure"), {"structure": name})
    else:
        table = _world(name)
    return _checked(table | {"version": _file().version}, name)


def _checked(table: Mapping[str, Any], name: str) -> Prior:
    try:
        return Prior.model_validate(table)
    except ValidationError as error:
        faults = []
        for line in error.errors(include_url=False):
            field = ".".join(map(str, line["loc"])) or "prior"
            said = line.get("ctx", {}).get("error", line["msg"])
            faults.append(f"{field}: {str(line['input'])[:100]}; expected {said}")
        raise ValueError(f"prior: {name}: {'; and '.join(faults)}") from None


def load_prior(
    source: "Prior | str | Path" = "diverse", changes: Mapping[str, Any] | None = None
) -> Prior:
    """The prior of one kind of world.

    Args:
        source: the name of a world or of a structure (`prior_names()`); the path of a TOML file
            with the fields of a world, which may name its `like`; or a `Prior`.
        changes: fields to change, tables field by field and tables of shares as a whole, such as
            `{"time": {"substeps": 4}, "lagged_edges": False}`.

    Raises:
        ValueError: no such prior, a mixture, a file that cannot be read, or faults in it: all of
            them, each with its field, its value and what was expected.
    """
    if isinstance(source, Prior):
        return source if not changes else _checked(_merged(_plain(source), changes), "changes")
    if isinstance(source, Path) or (isinstance(source, str) and source.endswith(".toml")):
        table = _read(Path(source))
        base = _plain(_named(_known(table.pop("like", "diverse"))))
        return _checked(_merged(_merged(base, table), changes or {}), str(source))
    if not isinstance(source, str):
        raise ValueError(f"prior: {source!r}; expected a Prior, a name, or the path of a TOML file")
    found = _named(_known(source))
    return found if not changes else _checked(_merged(_plain(found), changes), source)


def mixture_of(source: str) -> Mapping[str, float]:
    """Shares of the worlds of a mixture, by name; one that is none is its own."""
    return _file().mixtures.get(source, FrozenMapping({source: 1.0}))


def contents_of(prior: Prior) -> str:
    """SHA-256 of all numbers that decide draws."""
    numbers = [_plain(prior), {name: dict(one) for name, one in structures().items()}]
    return hashlib.sha256(json.dumps(numbers, default=dict).encode()).hexdigest()


def _known(name: object) -> str:
    known = (*_file().worlds, *_file().structures)
    if name not in known:
        raise ValueError(f"prior: {name!r}; expected {one_of(known, name)}")
    return str(name)


def _plain(entry: Entry) -> dict[str, Any]:
    """The fields of an entry as its file has them."""
    found: dict[str, Any] = {}
    for name, field in type(entry).model_fields.items():
        value = getattr(entry, name)
        if isinstance(value, Entry):
            value = _plain(value)
        elif isinstance(value, Mapping):
            value = dict(value)
        found[field.alias or name] = value
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ValueError(f"prior: {path}: {error.strerror}; expected a readable file") from None
    except ValueError as error:
        raise ValueError(f"prior: {path}: {error}; expected TOML in UTF-8") from None
