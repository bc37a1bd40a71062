"""Drawing a response: terms, weights and how they combine, from the prior.

Coefficients are drawn, then held within what the task's factors allow: no covariate multiplies the
target by less than `lowest` or more than e**`largest` at the factors it really has, so that every
draw is finite and of a size that can be seen.

References:
    whatif-v1.md §3, whose terms these are; the constants are the prior's.
"""

import jax.numpy as jnp
import numpy as np

from ..._types import Array, Bool, Float, FloatScalar
from ..response_table import NEUTRAL
from ..responses import TERM_KINDS, ActiveResponse, Terms
from .components import cos_turns
from .names import FORMS, REGIONS
from .numbers import Numbers, between, chosen, log_between
from .prior import Prior, ResponsePrior

__all__ = ["draw_response"]

SMALLEST = 1e-3  # deviations below it bound nothing


def draw_response(
    numbers: Numbers,
    direct: Bool[Array, " K"],
    active: Bool[Array, " K"],
    reach: tuple[Float[Array, " K"], Float[Array, " K"]],
    mean_magnitude: FloatScalar,
    prior: Prior,
) -> ActiveResponse:
    """The response of one target to its K covariates. Pure; vmap over rows.

    Args:
        numbers: of the task (`draw_numbers`).
        direct: whether the target rises as the covariate's factor grows.
        active: False where a covariate does nothing, or is padding.
        reach: smallest and largest deviation f - 1 of each covariate's factors.
        mean_magnitude: mean |y| of the series, the unit of what adds.
        prior: ranges and shares.

    Returns:
        a response as the catalog's are.
    """
    given = prior.response
    k = direct.shape[0]
    primary = jnp.arange(k) == 0
    bound = jnp.where(
        primary,
        log_between(numbers["bound"], given.largest),
        log_between(numbers["bound"], given.largest_secondary),
    )
    low, high = reach
    region = jnp.where(primary, 0, chosen(numbers["acts"], given.acts, REGIONS))
    above, below = REGIONS.index("above"), REGIONS.index("below")
    low = jnp.minimum(jnp.where(region == above, 0.0, low), -SMALLEST)
    high = jnp.maximum(jnp.where(region == below, 0.0, high), SMALLEST)
    terms = _terms(numbers, direct, low, high, bound, region, given)
    offset = numbers["offset"] < given.offset
    offset_scale, offset_exponent = _offset(numbers, direct[0], low[0], high[0], bound[0], given)
    overhead = between(numbers["overhead_slope"], given.overhead_slope)
    overhead = _held(jnp.where(direct[0], overhead, -overhead), low[0], high[0], bound[0], given)
    has_overhead = (numbers["overhead"] < given.overhead) & ~offset
    adds = offset & primary  # an offset takes the place of the primary covariate's terms
    terms = Terms(
        **{name: jnp.where(adds, NEUTRAL[name], value) for name, value in vars(terms).items()}
    )
    damped = numbers["undamped"] >= given.undamped
    unbounded = jnp.float32(np.inf)
    return ActiveResponse(
        terms=terms,
        weight=between(numbers["weight"], given.weight),
        in_mean_units=jnp.ones(k, bool),
        active=active,
        offset_slope=jnp.float32(0.0),
        offset_slope_of_mean=jnp.where(has_overhead, overhead, 0.0),
        offset_scale=jnp.where(offset, offset_scale * mean_magnitude, 0.0),
        offset_exponent=offset_exponent,
        additive=numbers["additive"] < given.additive,
        damping=jnp.where(damped, between(numbers["damping"], given.damping), 0.0),
        floor=log_between(numbers["floor"], (max(given.floor[0], 1e-6), given.floor[1])),
        clip_low=-unbounded,
        clip_high=unbounded,
        mean_magnitude=mean_magnitude,
        primary_kinds=TERM_KINDS,
        secondary_kinds=TERM_KINDS,
        primary_offset_power=True,
        cosine=cosine,
    )


def cosine(angle: Array) -> Array:
    """The cosine to 4e-7, many numbers at a time on a CPU, where XLA's own takes 19 times as long."""
    return cos_turns(angle * np.float32(0.5 / np.pi))


def _terms(
    numbers: Numbers,
    direct: Array,
    low: Array,
    high: Array,
    bound: Array,
    region: Array,
    given: ResponsePrior,
) -> Terms:
    """One form for each covariate, and where it acts."""
    sign = jnp.where(direct, 1.0, -1.0)
    form = chosen(numbers["form"], given.forms, FORMS)

    def of(*names: str) -> Array:
        return jnp.any(jnp.stack([form == FORMS.index(name) for name in names]), axis=0)

    # f^p stays within e**+-bound at both ends
    steepest = bound / jnp.maximum(-jnp.log1p(low), jnp.log1p(high))
    exponent = jnp.minimum(log_between(numbers["exponent"], given.exponent), steepest)
    second = jnp.minimum(log_between(numbers["second_size"], given.exponent), steepest)
    second = jnp.where(of("two_powers"), second, exponent)
    of_power = of("power", "two_powers", "part_power", "power_linear")
    whole = of("power", "two_powers")
    scale = between(numbers["coefficient"], given.whole)
    scale = jnp.where(whole, scale, between(numbers["coefficient"], given.part))

    signed_exponent = between(numbers["exponent"], given.signed_exponent)
    signed = _held(
        sign * log_between(numbers["size"], given.signed),
        _signed(low, signed_exponent), _signed(high, signed_exponent), bound, given,
    )  # fmt: skip
    slope = _held(sign * log_between(numbers["size"], given.slope), low, high, bound, given)
    beside = of("power_linear")  # a power takes a share of what is left, a line the rest
    slope = jnp.where(of("linear"), slope, jnp.where(beside, slope * (1.0 - scale), 0.0))
    cubic = _held(
        -sign * log_between(numbers["size"], given.cubic),
        (1.0 - low) ** 3 - 1.0, (1.0 - high) ** 3 - 1.0, bound, given,
    )  # fmt: skip
    largest = jnp.maximum(-low, high)
    rate = jnp.minimum(log_between(numbers["size"], given.rate), bound / largest)
    unbounded = jnp.float32(np.inf)
    return Terms(
        power_scale=jnp.where(of_power, scale, jnp.where(of("signed"), signed, 0.0)),
        exponent_above=jnp.where(
            of_power, sign * exponent, jnp.where(of("signed"), signed_exponent, 1.0)
        ),
        exponent_below=jnp.where(
            of_power, sign * second, jnp.where(of("signed"), signed_exponent, 1.0)
        ),
        of_deviation=of("signed"),
        slope=slope,
        cubic_scale=jnp.where(of("cubic"), cubic, 0.0),
        cosine_scale=jnp.where(of("cosine"), between(numbers["coefficient"], given.dip), 0.0),
        cosine_rate=jnp.where(of("cosine"), between(numbers["size"], given.angle), 1.0),
        exponential_scale=jnp.where(
            of("exponential"), between(numbers["coefficient"], given.part), 0.0
        ),
        exponential_rate=jnp.where(of("exponential"), sign * rate, 0.0),
        deviation_low=jnp.where(region == REGIONS.index("above"), 0.0, -unbounded),
        deviation_high=jnp.where(region == REGIONS.index("below"), 0.0, unbounded),
    )


def _offset(
    numbers: Numbers, direct: Array, low: Array, high: Array, bound: Array, given: ResponsePrior
) -> tuple[Array, Array]:
    """Scale, in means of the target, and exponent of a primary response that adds."""
    exponent = between(numbers["offset_exponent"], given.signed_exponent)
    size = log_between(numbers["offset_scale"], given.signed)
    ends = _signed(low, exponent), _signed(high, exponent)
    return _held(jnp.where(direct, size, -size), *ends, bound, given), exponent


def _signed(deviation: Array, exponent: Array) -> Array:
    return jnp.sign(deviation) * jnp.abs(deviation) ** exponent


def _held(
    scale: Array, at_low: Array, at_high: Array, bound: Array, given: ResponsePrior
) -> Array:
    """The scale, made smaller where scale * value at an end leaves what `bound` allows."""
    rise = jnp.expm1(bound)
    fall = jnp.minimum(-jnp.expm1(-bound), 1.0 - given.lowest)

    def room(value: Array) -> Array:
        change = scale * value
        return jnp.where(change > 0.0, rise, fall) / jnp.maximum(jnp.abs(change), 1e-12)

    return scale * jnp.minimum(1.0, jnp.minimum(room(at_low), room(at_high)))
