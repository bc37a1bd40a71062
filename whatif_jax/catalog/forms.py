"""The forms of a response: their constants, their formulas, and which way they go.

``whatif_jax.tasks`` evaluates them; here they are read, checked and printed without JAX. In every
formula ``f`` is the covariate's factor, ``y`` the baseline, ``mean|y|`` the mean of ``|y|`` over
the whole baseline, and ``g(f, p) = sign(f-1)*|f-1|^p``.

References:
    whatif-v1.md §3.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from .entry import Entry
from .fields import Number, must

__all__ = [
    "FORMS",
    "ConstantPlusPower",
    "CosineSquared",
    "Exponential",
    "Linear",
    "Pivot",
    "Power",
    "PowerLinear",
    "Proportional",
    "ReflectedCubic",
    "Response",
    "SignedPower",
]

Exponent = Annotated[Number, Field(description="A number: the exponent of f, or of |f-1|.")]
Rate = Annotated[
    Number, Field(description="A number: what 1 more of f adds to the exponent or angle.")
]
Scale = Annotated[Number, Field(description="A number: the scale of the power.")]
Slope = Annotated[
    Number, Field(description="A number: what 1 more of f adds; 0 by default in signed_power.")
]


class Response(Entry):
    """A form with its constants: the target under a primary covariate, r(f) of a secondary one."""

    form: ClassVar[str] = ""
    ratio_formula: ClassVar[str] = ""  # r(f); empty where no secondary covariate can have the form
    target_formula: ClassVar[str] = ""  # under a primary covariate; empty where it is y * r(f)
    note: ClassVar[str] = ""
    follows: ClassVar[Mapping[str, str]] = {}  # constants that by default are another one

    @classmethod
    def primary_formula(cls) -> str:
        """The target under a primary covariate."""
        return cls.target_formula or f"y * ({cls.ratio_formula})"

    @property
    def constants(self) -> dict[str, float]:
        """All constants by name, also those that were left out."""
        return dict(self)

    def trend(self) -> int:
        """1 where it rises with its factor, -1 where it falls, 0 where it may do either."""
        signs = {1 if slope > 0 else -1 for slope in self._slopes() if slope}
        return signs.pop() if len(signs) == 1 else 0

    def _slopes(self) -> tuple[float, ...]:
        """Numbers with the signs of the parts' slopes, for a baseline above 0."""
        return ()


class Power(Response):
    """A power of the factor."""

    form = "power"
    ratio_formula = "f^exponent"
    note = "for f < 1 the exponent is exponent_below"
    follows: ClassVar[Mapping[str, str]] = {"exponent_below": "exponent"}

    exponent: Exponent
    exponent_below: Number = Field(default_factory=lambda constants: constants.get("exponent"))
    """A number: the exponent of f where f < 1; by default `exponent`."""

    def _slopes(self) -> tuple[float, ...]:
        return self.exponent, self.exponent_below


class Linear(Response):
    """A straight line."""

    form = "linear"
    ratio_formula = "1 + slope*(f-1)"

    slope: Slope

    def _slopes(self) -> tuple[float, ...]:
        return (self.slope,)


class PowerLinear(Response):
    """A power and a straight line."""

    form = "power_linear"
    ratio_formula = "1 + scale*(f^exponent-1) + slope*(f-1)"

    scale: Scale
    exponent: Exponent
    slope: Slope

    def _slopes(self) -> tuple[float, ...]:
        return self.scale * self.exponent, self.slope


class ConstantPlusPower(Response):
    """A constant and a power."""

    form = "constant_plus_power"
    ratio_formula = "1 + coefficient*f^exponent"
    note = "divided by its value at f = 1"

    coefficient: Annotated[
        Number, must("a number other than -1, as r(1) divides", lambda c: c != -1)
    ]
    """A number other than -1: the scale of the power."""
    exponent: Exponent

    def _slopes(self) -> tuple[float, ...]:
        return (self.coefficient * self.exponent * (1.0 + self.coefficient),)


class ReflectedCubic(Response):
    """A cubic, with no constants."""

    form = "reflected_cubic"
    ratio_formula = "(2-f)^3"

    def _slopes(self) -> tuple[float, ...]:
        return (-1.0,)


class Exponential(Response):
    """An exponential."""

    form = "exponential"
    ratio_formula = "exp(rate*(f-1))"

    rate: Rate

    def _slopes(self) -> tuple[float, ...]:
        return (self.rate,)


class CosineSquared(Response):
    """A squared cosine."""

    form = "cosine_squared"
    ratio_formula = "cos(clip(rate*(f-1), -rate, +rate))^2"
    note = "largest at f = 1: a change either way lowers it"

    rate: Rate


class SignedPower(Response):
    """A power of the change, with its sign; under a primary covariate an offset."""

    form = "signed_power"
    ratio_formula = "1 + scale*g(f, exponent) + slope*(f-1)"
    target_formula = "y + scale*g(f, exponent) + slope*(f-1)"
    note = "g(f, p) = sign(f-1)*|f-1|^p; as a primary, scale and slope are in the target's unit"

    scale: Scale
    exponent: Exponent
    slope: Slope = Field(default_factory=float)

    def _slopes(self) -> tuple[float, ...]:
        return self.scale * self.exponent, self.slope


class Proportional(Response):
    """The target in proportion to the factor, and an overhead."""

    form = "proportional"
    target_formula = "f*y + overhead*mean|y|*(f-1)"

    overhead: Number
    """A number: what 1 more of f adds besides, in means of |y|."""

    def _slopes(self) -> tuple[float, ...]:
        return 1.0, self.overhead


class Pivot(Response):
    """The target's distance from a pivot in proportion to the factor."""

    form = "pivot"
    target_formula = "pivot + (y-pivot)*f + slope*(f-1)"
    note = "pivot and slope are in the target's unit"

    pivot: Number
    """A number: the value of the target that factors leave alone, in its unit."""
    slope: Slope


FORMS: Mapping[str, type[Response]] = {form.form: form for form in Response.__subclasses__()}
"""Every form above, by its name in a file."""
