"""The response forms of whatif-v1.md §3 as data: names, parameters, defaults and printed formulas.

``whatif_jax.responses`` evaluates them; here they are only named, so that a system's file can be
checked and printed without starting JAX. In every formula ``f`` is the covariate's factor, ``y``
the baseline, ``mean|y|`` the mean of ``|y|`` over the whole baseline, and
``g(f, p) = sign(f-1)*|f-1|^p``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["FORMS", "Form", "Parameter", "form_names", "trend"]


@dataclass(frozen=True)
class Parameter:
    """A constant of a form; ``default`` is a number, the name of another constant, or None."""

    name: str
    default: float | str | None = None


@dataclass(frozen=True)
class Form:
    """A response form: where it may stand, its constants and its formula.

    ``kind`` is "ratio" (as a primary the target is ``y*r(f)``), "offset" (as a primary
    the formula in ``primary_formula`` is added to y) or "map" (a primary that gives the target
    itself, and cannot be a secondary).
    """

    name: str
    kind: str
    parameters: tuple[Parameter, ...]
    primary_formula: str
    ratio_formula: str | None
    note: str = ""

    @property
    def as_secondary(self) -> bool:
        """Whether a secondary covariate may use this form."""
        return self.ratio_formula is not None

    def fill(self, constants: Mapping[str, float]) -> dict[str, float]:
        """All constants of the form, in its order, with the defaults put in."""
        filled: dict[str, float] = {}
        for parameter in self.parameters:
            value = constants.get(parameter.name, parameter.default)
            if isinstance(value, str):
                value = filled[value]
            if value is None:
                raise ValueError(f"form {self.name!r} needs the constant {parameter.name!r}")
            filled[parameter.name] = float(value)
        return filled


def _ratio(name: str, formula: str, *parameters: Parameter, note: str = "") -> Form:
    return Form(name, "ratio", parameters, f"y * ({formula})", formula, note)


_POWER = _ratio(
    "power",
    "f^exponent",
    Parameter("exponent"),
    Parameter("exponent_below", "exponent"),
    note="for f < 1 the exponent is exponent_below",
)
_LINEAR = _ratio("linear", "1 + slope*(f-1)", Parameter("slope"))
_POWER_LINEAR = _ratio(
    "power_linear",
    "1 + scale*(f^exponent-1) + slope*(f-1)",
    Parameter("scale"),
    Parameter("exponent"),
    Parameter("slope"),
)
_CONSTANT_PLUS_POWER = _ratio(
    "constant_plus_power",
    "1 + coefficient*f^exponent",
    Parameter("coefficient"),
    Parameter("exponent"),
    note="divided by its value at f = 1",
)
_REFLECTED_CUBIC = _ratio("reflected_cubic", "(2-f)^3")
_EXPONENTIAL = _ratio("exponential", "exp(rate*(f-1))", Parameter("rate"))
_COSINE_SQUARED = _ratio(
    "cosine_squared",
    "cos(clip(rate*(f-1), -rate, +rate))^2",
    Parameter("rate"),
    note="largest at f = 1: a change either way lowers it",
)
_SIGNED_POWER = Form(
    "signed_power",
    "offset",
    (Parameter("scale"), Parameter("exponent"), Parameter("slope", 0.0)),
    "y + scale*g(f, exponent) + slope*(f-1)",
    "1 + scale*g(f, exponent) + slope*(f-1)",
    note="g(f, p) = sign(f-1)*|f-1|^p; as a primary, scale and slope are in the target's unit",
)
_PROPORTIONAL = Form(
    "proportional",
    "map",
    (Parameter("overhead"),),
    "f*y + overhead*mean|y|*(f-1)",
    None,
)
_PIVOT = Form(
    "pivot",
    "map",
    (Parameter("pivot"), Parameter("slope")),
    "pivot + (y-pivot)*f + slope*(f-1)",
    None,
    note="pivot and slope are in the target's unit",
)

FORMS: Mapping[str, Form] = {
    form.name: form
    for form in (
        _POWER,
        _LINEAR,
        _POWER_LINEAR,
        _CONSTANT_PLUS_POWER,
        _REFLECTED_CUBIC,
        _EXPONENTIAL,
        _COSINE_SQUARED,
        _SIGNED_POWER,
        _PROPORTIONAL,
        _PIVOT,
    )
}
"""Every form by name (whatif-v1.md §3)."""


def form_names(*, secondary: bool = False) -> tuple[str, ...]:
    """Names of the forms, or of those a secondary covariate may use."""
    return tuple(name for name, form in FORMS.items() if form.as_secondary or not secondary)


def trend(name: str, constants: Mapping[str, float]) -> int:
    """1 where the response rises with its factor, -1 where it falls, 0 where it may do either.

    ``constants`` are complete (see :meth:`Form.fill`) and the baseline is taken as positive.
    """
    c = constants
    match name:
        case "power":
            slopes = [c["exponent"], c["exponent_below"]]
        case "linear":
            slopes = [c["slope"]]
        case "power_linear":
            slopes = [c["scale"] * c["exponent"], c["slope"]]
        case "constant_plus_power":
            slopes = [c["coefficient"] * c["exponent"] * (1.0 + c["coefficient"])]
        case "reflected_cubic":
            slopes = [-1.0]
        case "exponential":
            slopes = [c["rate"]]
        case "signed_power":
            slopes = [c["scale"] * c["exponent"], c["slope"]]
        case "proportional":
            slopes = [1.0, c["overhead"]]
        case _:
            return 0
    signs = {1 if slope > 0 else -1 for slope in slopes if slope}
    return signs.pop() if len(signs) == 1 else 0
