"""Piecewise regression of an interrupted time series: levels and slopes of segments, and a dose."""

import functools

import jax.numpy as jnp
import numpy as np

from whatif_jax._types import Array, Bool, Float, FloatScalar, Int, IntScalar
from whatif_jax.tscm import Episode

from .baseline import Estimate
from .effects import deviation, estimate_of, passed_on
from .least_squares import earlier, enough, least_squares, rows_of
from .question import Question
from .trivial import queried

__all__ = ["SEGMENTS", "interrupted", "segments_of"]

SEGMENTS = 5
GRID = 40  # places where a segment may begin, at most
LEAST = 10  # steps of a segment, at least


@functools.cache
def _blocks(steps: int) -> tuple[int, np.ndarray, np.ndarray]:
    """Steps of a block, and [begin, end, block]: whether inside, and steps since the beginning."""
    stride = max(LEAST // 2, -(-steps // GRID))
    block = np.arange(-(-steps // stride))
    begin, end = block[:, None, None], block[None, :, None]
    inside = (block >= begin) & (block <= end)
    since = np.where(inside, stride * (block - begin), 0)
    return stride, inside.astype(np.float32), since.astype(np.float32)


def segments_of(
    values: Float[Array, " T"], seen: Bool[Array, " T"]
) -> tuple[Int[Array, " T"], IntScalar, Int[Array, " S"]]:
    """Segments of a series by its own values: least squares of a line each, as Bai and Perron.

    Of all partitions of the steps seen into at most 5 segments of at least 10 steps, which begin on
    a grid of at most 40 places, the one of the least n log(squares / n) + (3 segments - 1) log n:
    Schwarz's criterion with two coefficients a segment and the places of the breaks. Exact, by
    dynamic programming over ends. Noise is taken as independent: in series that depend on their
    past it finds more breaks than there are regimes.

    Returns:
        the segment of each step, counted from the last one, which is 0; how many there are; and
        the first step of each, from the last one on, 0 for those there are not.
    """
    steps = values.shape[0]
    stride, inside, since = _blocks(steps)
    count = jnp.sum(seen, dtype=jnp.float32)
    mean = jnp.sum(jnp.where(seen, values, 0.0)) / jnp.maximum(count, 1.0)
    y = jnp.where(seen, values - mean, 0.0)
    scale = jnp.sqrt(jnp.sum(y * y) / jnp.maximum(count, 1.0))
    y = y / jnp.where(scale > 0.0, scale, 1.0)
    cost = _costs(y, seen, stride, inside, since)
    ends = cost.shape[0]
    best = [cost[0]]  # of one segment, by its last block
    origin = [jnp.zeros(ends, jnp.int32)]
    for _ in range(1, SEGMENTS):
        # a segment that begins at block i follows one whose last block is i - 1
        total = best[-1][:-1, None] + cost[1:]
        best.append(jnp.min(total, axis=0))
        origin.append(jnp.argmin(total, axis=0).astype(jnp.int32) + 1)
    squares = jnp.maximum(jnp.stack([found[-1] for found in best]), 1e-6 * count)
    size = jnp.maximum(count, 2.0)
    number = jnp.asarray(np.arange(1, SEGMENTS + 1, dtype=np.float32))
    criterion = size * jnp.log(squares / size) + (3.0 * number - 1.0) * jnp.log(size)
    criterion = jnp.where(jnp.isfinite(squares), criterion, jnp.inf)
    chosen = jnp.argmin(criterion).astype(jnp.int32)  # segments less one

    starts, end = [], jnp.asarray(ends - 1, jnp.int32)
    for back in range(SEGMENTS):
        left = chosen - back
        start = jnp.stack(origin)[jnp.maximum(left, 0), end]
        start = jnp.where(left > 0, start, 0)
        starts.append(start * stride)
        end = jnp.maximum(start - 1, 0)
    begins = jnp.stack(starts)
    step = jnp.asarray(np.arange(steps, dtype=np.int32))
    real = jnp.asarray(np.arange(SEGMENTS, dtype=np.int32)) <= chosen
    segment = jnp.sum((step[:, None] < begins[None]) & real[None], axis=1, dtype=jnp.int32)
    return segment, chosen + 1, jnp.where(real, begins, 0)


def _costs(
    y: Array, seen: Array, stride: int, inside: np.ndarray, since: np.ndarray
) -> Float[Array, "G G"]:
    """Squares around the best line of the segment from each block to each; inf where too short."""
    blocks = inside.shape[0]
    padded = jnp.pad(jnp.stack([seen.astype(y.dtype), y]), ((0, 0), (0, blocks * stride - len(y))))
    mask, values = padded.reshape(2, blocks, stride)
    at = jnp.asarray(np.arange(stride, dtype=np.float32))[None]

    def own(of: Array) -> Array:
        return jnp.sum(of, axis=1)

    def sums(weights: np.ndarray, of: Array) -> Array:
        return jnp.einsum("beg,g->be", jnp.asarray(weights), of, precision="highest")

    # sums over a segment of 1, k, k^2, y, k y, y^2, k its steps since the beginning
    number, steps, summed = own(mask), own(mask * at), own(values)
    count, total = sums(inside, number), sums(inside, summed)
    k = sums(inside, steps) + sums(since, number)
    k2 = sums(inside, own(mask * at * at)) + sums(2.0 * since, steps) + sums(since**2, number)
    product = sums(inside, own(values * at)) + sums(since, summed)
    square = sums(inside, own(values * values))
    one = jnp.maximum(count, 1.0)
    spread = jnp.maximum(k2 - k * k / one, 1e-3)
    along = product - k * total / one
    left = jnp.maximum(square - total * total / one - along * along / spread, 0.0)
    whole = np.zeros(count.shape, bool)
    whole[0] = True  # the first may be short where little is seen
    return jnp.where((count >= LEAST) | jnp.asarray(whole), left, jnp.inf)


def interrupted(question: Question, structure: str, episode: Episode | None = None) -> Estimate:
    """Segments' levels and slopes, and the nodes intervened on at the step and one before.

    The segments are found in the queried node's values before the onset (`segments_of`); regimes
    are not shown. Without the intervention the last segment's line would go on for as many steps as
    the segment has, and stay; the treatment's coefficients, the same in all segments, times its
    deviation from its mean are the effect. It asks for no structure, and takes association for
    effect. With too few steps it gives the mean.

    A classical interrupted time series reads the outcome after the interruption to find the effect;
    here that is what is asked for, so that the dose comes from the treatment's own variation before
    it. The package leaves its entry without code.
    """
    series, given, seen = question.series, question.intervention, question.seen
    y = queried(question)
    segment, number, begins = segments_of(y, seen)
    steps = y.shape[0]
    step = jnp.asarray(np.arange(steps, dtype=np.int32))
    place = jnp.asarray(np.arange(SEGMENTS, dtype=np.int32))
    member = (segment[:, None] == place[None]).astype(y.dtype)
    end = jnp.maximum(jnp.sum(seen, dtype=jnp.int32), 1) - 1
    ahead = jnp.clip(step, 0, end + (end + 1 - begins[0]))
    time = (ahead - end).astype(y.dtype) / np.float32(LEAST)
    rows = rows_of(seen, 1)
    nodes = jnp.asarray(np.arange(series.shape[1], dtype=np.int32))
    doses, levels, owns = [], [], []
    for slot in range(given.targets.shape[0]):
        own = (nodes == given.targets[slot]) & question.visible
        dose = jnp.sum(jnp.where(own[None], series, 0.0), axis=1)
        doses.append(dose)
        levels.append(jnp.sum(dose) / (end + 1).astype(y.dtype))
        owns.append(_own(dose, rows))
    columns = [member, member * time[:, None]]
    columns += [jnp.stack([dose, earlier(dose, 1)], axis=1) for dose in doses]
    found = least_squares(jnp.concatenate(columns, axis=1), y[:, None], rows)[0][:, 0]
    line, weights = found[: 2 * SEGMENTS], found[2 * SEGMENTS :].reshape(len(doses), 2)
    without = line[0] + line[SEGMENTS] * time
    effect = jnp.zeros_like(y)
    for slot, (level, own) in enumerate(zip(levels, owns, strict=True)):
        moved = deviation(question, given.targets[slot], level, own)
        there = given.targets[slot] >= 0
        add = passed_on(moved, weights[slot, 0], weights[slot, 1], jnp.zeros_like(level))
        effect = effect + jnp.where(there, add, 0.0)
        without = without + jnp.where(there, level * jnp.sum(weights[slot]), 0.0)
    targets = jnp.sum(given.targets >= 0, dtype=jnp.int32)
    return estimate_of(question, effect, enough(rows, 2 * number + 2 * targets), without)


def _own(dose: Float[Array, " T"], rows: Array) -> FloatScalar:
    """The coefficient of a node on its value one step before."""
    columns = jnp.stack([jnp.ones_like(dose), earlier(dose, 1)], axis=1)
    return least_squares(columns, dose[:, None], rows)[0][1, 0]
