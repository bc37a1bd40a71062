"""EPANET: covariates, targets and responses (whatif-v1.md §2 and §3).

Bases are those of the stock Net1 network in its own units: GPM, ft, in, Hazen-Williams C.
"""

from .forms import DIRECT, Covariate, Primary, Secondary, floored

DEMANDS = {  # junction 10 demands 0 there: its covariate's base is 1 (whatif-v1.md §2)
    "10": 1.0,
    "11": 150.0,
    "12": 150.0,
    "13": 100.0,
    "21": 150.0,
    "22": 200.0,
    "23": 150.0,
    "31": 100.0,
    "32": 100.0,
}
DIAMETERS = {
    "10": 18.0,
    "11": 14.0,
    "12": 10.0,
    "21": 10.0,
    "22": 12.0,
    "31": 6.0,
    "110": 18.0,
    "111": 10.0,
    "112": 12.0,
    "113": 8.0,
    "121": 8.0,
    "122": 6.0,
}
COVARIATES = (
    *(Covariate(f"junction_{j}_base_demand", base, "step") for j, base in DEMANDS.items()),
    Covariate("reservoir_9_base_head", 800.0, "bell"),
    Covariate("tank_2_init_level", 120.0, "bell"),
    Covariate("pump_9_setting", 1.0, "bell"),
    *(Covariate(f"pipe_{p}_diameter", base, "step") for p, base in DIAMETERS.items()),
    *(Covariate(f"pipe_{p}_roughness", 100.0, "step") for p in DIAMETERS),
)
TARGETS = (
    *(f"pressure_{j}" for j in DEMANDS),
    *("pressure_2", "demand_9", "demand_2"),
    *(f"flowrate_{p}" for p in DIAMETERS),
    "flowrate_9",
    *(f"velocity_{p}" for p in DIAMETERS),
)
SECONDARY_WEIGHT = {
    "pressure": lambda name_sum: 0.10 + 0.05 * (name_sum % 5),
    "demand": lambda name_sum: 0.10 + 0.02 * (name_sum % 5),
    "flowrate": lambda name_sum: 0.10 + 0.04 * (name_sum % 6),
    "velocity": lambda name_sum: 0.10 + 0.03 * (name_sum % 6),
}


def primary(target: str) -> Primary:
    """y*(1 + c*(f^0.4-1) + 0.09*(f-1)), c by element (whatif-v1.md §3)."""
    quantity, element = target.split("_")
    c = 1.0
    if target == "flowrate_9":
        covariate = "pump_9_setting"
    elif quantity in ("flowrate", "velocity"):
        covariate = f"pipe_{element}_{'diameter' if quantity == 'flowrate' else 'roughness'}"
        c = 1 + 0.1 * (int(element) % 10)
    elif target == "demand_9":
        covariate = "reservoir_9_base_head"
    elif element == "2":
        covariate = "tank_2_init_level"
    else:
        covariate = f"junction_{element}_base_demand"
        c = 1 + 0.05 * (int(element) % 10)

    def response(y, f, ybar):
        return y * (1 + c * (floored(f) ** 0.4 - 1) + 0.09 * (f - 1))

    return Primary(covariate, DIRECT, response)


def factor(f, strength, ybar):
    """The ratio is the factor itself: 1 + (s*w)(f^0.4-1) + 0.01(s*w)(f-1) (whatif-v1.md §3)."""
    return 1 + strength * (floored(f) ** 0.4 - 1) + 0.01 * strength * (f - 1)


def secondary(target: str, covariate: str) -> Secondary:
    """The weight follows from the character codes of the covariate's name (whatif-v1.md §3)."""
    weight = SECONDARY_WEIGHT[target.split("_")[0]]
    return Secondary(DIRECT, weight(sum(ord(letter) for letter in covariate)), factor)
