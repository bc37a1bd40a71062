"""Frozen suites of episodes: a seed and sizes, from which every episode is made again.

References:
    suites.toml, beside this file.
"""

import dataclasses
import functools
import hashlib
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import AfterValidator

from .._types import Array, Int, PRNGKeyArray
from ..catalog.entry import Entry
from ..catalog.errors import one_of
from ..catalog.fields import Count, FrozenMapping, Number, Whole, must
from ..tasks.forked import refuse_forked
from ..tasks.keys import root_key
from ..tasks.spec import is_whole
from .episode import Episode, sample_episodes
from .frozen import frozen_values
from .names import VALUES
from .prior import Prior, contents_of, load_prior
from .workers import made_in_order, workers

__all__ = ["EpisodePart", "EpisodeSuite", "episode_suites", "load_episode_suite"]


# Episodes of a program at least: all of them simulate as many side by side, since XLA may round
# sums of fewer otherwise (regimes on a CPU do), and some worlds amplify the last bit.
_FEWEST = 128


class _Part(Entry):
    """One part, as the file has it."""

    prior: str
    episodes: Count
    name: str = ""
    tier: Whole = 0
    windows: Annotated[
        tuple[Number, ...], must("two rising shares, or none", lambda w: len(w) in (0, 2))
    ] = ()
    changes: Annotated[Mapping[str, Any], AfterValidator(FrozenMapping)] = FrozenMapping({})


class _Suite(Entry):
    """One suite, as the file has it."""

    version: str
    seed: Whole
    steps: Count
    parts: tuple[_Part, ...]


@dataclasses.dataclass(frozen=True)
class EpisodePart:
    """Episodes of a suite that share a prior."""

    name: str
    structure: str  # "" where the graph is none of the named ones
    tier: int  # difficulty; 0 where the window tells it
    prior: Prior
    first: int  # number of its first episode
    episodes: int
    windows: tuple[float, ...] = ()  # shares of the span that part the tiers

    @property
    def numbers(self) -> range:
        """Of its episodes."""
        return range(self.first, self.first + self.episodes)

    def tiers(self, episode: Episode) -> Int[np.ndarray, " B"]:
        """Difficulty of each episode of this part."""
        onset = np.asarray(episode.intervention.onset)
        if not self.windows:
            return np.full(onset.shape, self.tier, np.int64)
        times = np.asarray(episode.times)
        last = onset + np.asarray(episode.intervention.length) - 1
        row = np.arange(len(onset))
        share = (times[row, last] - times[row, onset]) / (times[:, -1] - times[:, 0])
        return 1 + np.sum(share[:, None] >= np.asarray(self.windows), axis=1)


@dataclasses.dataclass(frozen=True)
class EpisodeSuite:
    """Episodes numbered 0, 1, 2, ... over the parts, each a function of seed and number alone."""

    name: str
    version: str
    seed: int
    steps: int  # of each series
    parts: tuple[EpisodePart, ...]

    @property
    def episodes(self) -> int:
        """How many there are."""
        return sum(part.episodes for part in self.parts)

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of what the episodes are drawn from: seed, steps, priors and numbers."""
        parts = [
            [part.name, part.first, part.episodes, part.tier, part.windows, contents_of(part.prior)]
            for part in self.parts
        ]
        said = [self.version, self.seed, self.steps, parts]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()

    def __len__(self) -> int:
        return self.episodes

    def __repr__(self) -> str:
        names = ", ".join(f"{part.name} {part.episodes:,}" for part in self.parts)
        return f"{self.version}: {self.episodes:,} episodes of {self.steps} steps ({names})"

    def part_of(self, number: int) -> EpisodePart:
        """The part of an episode.

        Raises:
            ValueError: the suite has no such episode.
        """
        self._check([number])
        return next(part for part in self.parts if number in part.numbers)

    def sample(self, count: int) -> Int[np.ndarray, " count"]:
        """Numbers of a sample: the first episodes of every part, parts in proportion.

        The episodes of a part are drawn alike and independently, so that its first ones are a fair
        sample, and a larger sample holds a smaller one but for rounding.

        Raises:
            ValueError: no count of 1 to `episodes`.
        """
        if not is_whole(count) or not 1 <= count <= self.episodes:
            raise ValueError(f"sample: {count!r}; expected a whole number in 1 to {self.episodes}")
        shares = np.array([part.episodes * (count / self.episodes) for part in self.parts])
        counts = np.maximum(np.floor(shares).astype(np.int64), int(count >= len(self.parts)))
        order = np.argsort(np.floor(shares) - shares, kind="stable")
        counts[order[: max(count - int(counts.sum()), 0)]] += 1
        both = zip(self.parts, counts, strict=True)
        return np.concatenate([part.first + np.arange(some) for part, some in both])

    def episodes_of(self, numbers: Sequence[int] | np.ndarray) -> Episode:
        """Some episodes of one part; every array has a leading axis B.

        The key of an episode is fold_in(root_key(seed), number), threefry2x32.

        Raises:
            ValueError: no number, one that the suite does not have, or numbers of several parts.
            ForkedError: in a process that was forked after JAX was used.
        """
        chosen = self._check(numbers)
        part = self.part_of(int(chosen[0]))
        if not np.all((chosen >= part.first) & (chosen < part.first + part.episodes)):
            raise ValueError(
                f"numbers: {chosen.min()} to {chosen.max()} of several parts; expected those of "
                f"one, or `batches`"
            )
        rows = 1 << (len(chosen) - 1).bit_length()  # so that few sizes are compiled
        return self._made(part, chosen, rows)

    def batches(
        self, *, batch_size: int = 1024, numbers: Sequence[int] | np.ndarray | None = None
    ) -> Iterator[tuple[EpisodePart, Int[np.ndarray, " B"], Episode]]:
        """Part, numbers and episodes of every batch, part by part, one program a part.

        A part's episodes are parted evenly; its last batch is made as long as the others and cut.
        Batches are made ahead of their use, on a CPU one a core at once.

        Args:
            batch_size: most episodes made at once.
            numbers: of the episodes; None for all of them. A part's come in the order given.

        Raises:
            ValueError: a batch size below 1, or a number that the suite does not have.
            ForkedError: in a process that was forked after JAX was used.
        """
        if not is_whole(batch_size) or batch_size < 1:
            raise ValueError(f"batch_size: {batch_size!r}; expected an integer >= 1")
        chosen = np.arange(self.episodes) if numbers is None else self._check(numbers)
        return self._ahead(chosen, int(batch_size))

    def _ahead(
        self, chosen: np.ndarray, batch_size: int
    ) -> Iterator[tuple[EpisodePart, np.ndarray, Episode]]:
        said: list[tuple[EpisodePart, np.ndarray]] = []
        groups: list[list[Callable[[], Episode]]] = []
        for part in self.parts:
            own = chosen[(chosen >= part.first) & (chosen < part.first + part.episodes)]
            # even batches, so that little is padded; one size, however few episodes are asked for
            rows = -(-part.episodes // -(-part.episodes // batch_size))
            some = [own[start : start + rows] for start in range(0, len(own), rows)]
            said += [(part, numbers) for numbers in some]
            groups.append([functools.partial(self._made, part, numbers, rows) for numbers in some])
        made = made_in_order(groups, workers())
        for (part, numbers), episode in zip(said, made, strict=True):
            yield part, numbers, episode

    def _made(self, part: EpisodePart, numbers: np.ndarray, rows: int) -> Episode:
        refuse_forked()
        padded = np.resize(numbers, max(rows, _FEWEST)).astype(np.uint32)
        keys = _keys(root_key(self.seed), padded)
        found = sample_episodes(keys=keys, prior=part.prior, steps=self.steps)
        if len(padded) == len(numbers):
            return found
        return jax.tree.map(lambda leaf: leaf[: len(numbers)], found)

    def _check(self, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
        found = np.asarray(numbers)
        whole = found.ndim == 1 and found.size > 0 and found.dtype.kind in "iu"
        if not whole or found.min() < 0 or found.max() >= self.episodes:
            raise ValueError(
                f"numbers: {str(numbers)[:100]}; expected some of 0 to {self.episodes - 1}"
            )
        return found


@jax.jit
def _keys(root: PRNGKeyArray, numbers: Array) -> PRNGKeyArray:
    return jax.vmap(functools.partial(jax.random.fold_in, root))(jnp.asarray(numbers))


@functools.cache
def _file() -> Mapping[str, _Suite]:
    table = tomllib.loads((files(__package__) / "suites.toml").read_text("utf-8"))
    return FrozenMapping({name: _Suite.model_validate(suite) for name, suite in table.items()})


def episode_suites() -> tuple[str, ...]:
    """Names of the suites of episodes that ship with the package."""
    return tuple(_file())


def load_episode_suite(name: str, *, values: str | None = None) -> EpisodeSuite:
    """A frozen suite of episodes.

    Args:
        name: one of `episode_suites()`.
        values: where the values of all hard interventions come from, one of `names.VALUES`: a
            variant whose worlds, noise and windows are the suite's own, called such as
            "identifiability-v1+observed_normal". An episode may differ in more only where one of
            the two had to be drawn again, since other values left the prior's limit.

    Raises:
        ValueError: no such suite, no such origin of values, or a suite whose definition is not
            the one it was frozen with.
    """
    if name not in _file():
        raise ValueError(f"suite: {name!r}; expected {one_of(episode_suites(), name)}")
    if values is not None and values not in VALUES:
        raise ValueError(f"values: {values!r}; expected {one_of(VALUES, values)}")
    said = _file()[name]
    parts: list[EpisodePart] = []
    first, version = 0, said.version
    for part in said.parts:
        prior = load_prior(part.prior, dict(part.changes))
        if values is not None:
            own = prior
            prior = load_prior(own, {"intervention": {"values": {values: 1.0}}})
            if prior != own:
                version = f"{said.version}+{values}"
        structure = prior.structure if prior.graph == "structure" else ""
        label = part.name or part.prior
        parts.append(
            EpisodePart(label, structure, part.tier, prior, first, part.episodes, part.windows)
        )
        first += part.episodes
    suite = EpisodeSuite(name, version, said.seed, said.steps, tuple(parts))
    kept = frozen_values().get(version)
    if kept is not None and kept["fingerprint"] != suite.fingerprint:
        raise ValueError(
            f"suite: {version} was frozen with {kept['fingerprint']} and has {suite.fingerprint} "
            f"now; expected the seed, sizes and priors it was frozen with, or another version"
        )
    return suite
