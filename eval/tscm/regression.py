"""Regression of the outcome on the treatment: plain, by back-door, instrument and front door.

All read the treatment at the step and one before, the longest lag of a structure, and the outcome
one step before. The package's read the treatment of the same step alone: on `mediator`, whose
effect comes a step later, it puts the intervention's value at a step that has none, and on
`observed_confounder` the confounder's lagged edge is left open.

What a method says of the level is the outcome's mean before the onset plus the effect, as the
package's average over the observed history is: nothing is made of the last values seen. The effect
of do(A = v) is the coefficient times v minus the mean of A; that of windows and later steps follows
by the fitted lags (`effects`). A soft intervention adds to the treatment, a varying one holds it at
the values of its steps. The package reads one constant, and the treatment's mean where there is
none.

Where there are fewer than two rows for every coefficient the methods give the mean; the package
needs four rows. The ridge of 1e-6 on its Gram matrix is 1e-8 of a column's norm here.
"""

import jax.numpy as jnp

from whatif_jax._types import Array, BoolScalar, Float, FloatScalar
from whatif_jax.tscm import Episode

from .baseline import Estimate
from .effects import asks_for, deviation, estimate_of, passed_on
from .least_squares import column, earlier, enough, least_squares, rows_of
from .question import Question
from .roles import Roles, roles_of
from .trivial import mean

__all__ = [
    "WEAK",
    "back_door",
    "fits_back_door",
    "fits_front_door",
    "fits_instrument",
    "fits_regression",
    "front_door",
    "instrument",
    "regression",
    "two_stages",
]

WEAK = 10.0
"""First-stage F below which an instrument counts as weak (Staiger and Stock)."""


def fits_regression(structure: str) -> bool:
    """Every structure: each has a treatment and an outcome."""
    return roles_of(structure) is not None


def fits_back_door(structure: str) -> bool:
    """Structures with a visible confounder and no hidden one."""
    roles = roles_of(structure)
    return roles is not None and bool(roles.adjust)


def fits_instrument(structure: str) -> bool:
    """Structures with an instrument."""
    roles = roles_of(structure)
    return roles is not None and bool(roles.instruments)


def fits_front_door(structure: str) -> bool:
    """Structures whose effect leads through one visible mediator."""
    roles = roles_of(structure)
    return roles is not None and bool(roles.mediators)


def _with_past(series: Array, nodes: tuple[int, ...]) -> list[Array]:
    return [
        values
        for node in nodes
        for values in (column(series, node), earlier(column(series, node), 1))
    ]


def _fit(columns: list[Array], target: Array, rows: Array) -> tuple[Array, FloatScalar]:
    """Coefficients [1 + columns], the constant first, and the squares left."""
    ones = jnp.ones_like(target)
    found, left = least_squares(jnp.stack([ones, *columns], axis=1), target[:, None], rows)
    return found[:, 0], left[0]


def _treatment_mean(question: Question, roles: Roles) -> FloatScalar:
    count = jnp.maximum(jnp.sum(question.seen, dtype=jnp.float32), 1.0)
    return jnp.sum(column(question.series, roles.treatment)) / count


def _adjusted(question: Question, roles: Roles, adjust: tuple[int, ...]) -> Estimate:
    """Y(t) on A(t), A(t-1), Y(t-1), and both steps of the nodes adjusted for."""
    series, rows = question.series, rows_of(question.seen, 1)
    a, y = column(series, roles.treatment), column(series, roles.outcome)
    others = _with_past(series, adjust)
    found, _ = _fit([a, earlier(a, 1), earlier(y, 1), *others], y, rows)
    own, _ = _fit([earlier(a, 1), *others], a, rows)
    moved = deviation(question, roles.treatment, _treatment_mean(question, roles), own[1])
    effect = passed_on(moved, found[1], found[2], found[3])
    return estimate_of(question, effect, enough(rows, 4 + len(others)) & asks_for(question, roles))


def regression(question: Question, structure: str, episode: Episode | None = None) -> Estimate:
    """Plain regression: takes association for effect, with every confounder's bias."""
    roles = roles_of(structure)
    if roles is None:
        return mean(question, structure)
    return _adjusted(question, roles, ())


def back_door(question: Question, structure: str, episode: Episode | None = None) -> Estimate:
    """Regression that adjusts for the structure's back-door set, at the step and one before.

    The lag matters: with A(t-1) and X(t-1) acting on A(t) and X(t-1) on Y(t), the confounder's
    value at the step alone, as the package takes it, leaves a path open.
    """
    roles = roles_of(structure)
    if roles is None or not roles.adjust:
        return mean(question, structure)
    return _adjusted(question, roles, roles.adjust)


def two_stages(
    treatment: Float[Array, " T"],
    outcome: Float[Array, " T"],
    instruments: Float[Array, "T I"],
    controls: Float[Array, "T C"],
    rows: Array,
) -> tuple[Float[Array, " 1+C"], Float[Array, " I+C"], FloatScalar]:
    """Two-stage least squares; the constant is one of the controls.

    Returns:
        coefficients of the treatment and the controls; those of the first stage, instruments
        first; and F of the instruments in the first stage.
    """
    count = jnp.sum(rows, dtype=jnp.float32)
    columns = jnp.concatenate([instruments, controls], axis=1)
    first, left = least_squares(columns, treatment[:, None], rows)
    _, alone = least_squares(controls, treatment[:, None], rows)
    gained = jnp.maximum(alone[0] - left[0], 0.0) / instruments.shape[1]
    spare = jnp.maximum(count - columns.shape[1], 1.0)
    strength = gained / jnp.maximum(left[0] / spare, jnp.finfo(left.dtype).tiny)
    expected = columns @ first
    second, _ = least_squares(jnp.concatenate([expected, controls], axis=1), outcome[:, None], rows)
    return second[:, 0], first[:, 0], strength


def instrument(question: Question, structure: str, episode: Episode | None = None) -> Estimate:
    """Two-stage least squares with the structure's instrument at the same step.

    The instrument's own past is a control: it acts on the outcome by the treatment's past, so that
    only what is new in the instrument is one. The package has no controls, which leaves that path
    open. Pasts of treatment and outcome are controls too, which takes noise away; their
    coefficients are not instrumented, and effects at later steps rest on them.

    Weak instruments: with a first-stage F (of the instrument given the controls) below 10 it gives
    the mean. The package's guard is an R2 below 0.1.
    """
    roles = roles_of(structure)
    if roles is None or not roles.instruments:
        return mean(question, structure)
    series, rows = question.series, rows_of(question.seen, 1)
    a, y = column(series, roles.treatment), column(series, roles.outcome)
    given = jnp.stack([column(series, node) for node in roles.instruments], axis=1)
    past = [earlier(a, 1)[:, None], earlier(y, 1)[:, None], earlier(given, 1)]
    controls = jnp.concatenate([jnp.ones_like(a)[:, None], *past], axis=1)
    found, first, strength = two_stages(a, y, given, controls, rows)
    own = first[given.shape[1] + 1]
    moved = deviation(question, roles.treatment, _treatment_mean(question, roles), own)
    effect = passed_on(moved, found[0], found[2], found[3])
    strong: BoolScalar = strength >= WEAK
    fits = enough(rows, 1 + controls.shape[1]) & strong & asks_for(question, roles)
    return estimate_of(question, effect, fits)


def front_door(question: Question, structure: str, episode: Episode | None = None) -> Estimate:
    """Front-door adjustment: from treatment to mediator, and from mediator to outcome.

    The second regression holds the treatment at both steps, which closes the path by the hidden
    confounder. Pearl's sum over treatments is, for linear regressions, the product of the two.
    """
    roles = roles_of(structure)
    if roles is None or not roles.mediators:
        return mean(question, structure)
    series, rows = question.series, rows_of(question.seen, 1)
    a, y = column(series, roles.treatment), column(series, roles.outcome)
    m = column(series, roles.mediators[0])
    own, _ = _fit([earlier(a, 1)], a, rows)
    to_mediator, _ = _fit([a, earlier(a, 1), earlier(m, 1)], m, rows)
    to_outcome, _ = _fit([m, earlier(m, 1), earlier(y, 1), a, earlier(a, 1)], y, rows)
    moved = deviation(question, roles.treatment, _treatment_mean(question, roles), own[1])
    mediated = passed_on(moved, to_mediator[1], to_mediator[2], to_mediator[3])
    effect = passed_on(mediated, to_outcome[1], to_outcome[2], to_outcome[3])
    return estimate_of(question, effect, enough(rows, 6) & asks_for(question, roles))
