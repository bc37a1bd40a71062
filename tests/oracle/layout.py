"""Where events lie in a history and how many there are (whatif-v1.md §5).

The percentages are taken in whole numbers, so that no rounding of 0.58 decides a layout.
"""

GAP = 32
EVENT_LENGTHS = (32, 64, 128, 256, 512)
COVARIATE_COUNTS = (1, 2, 3, 4, 5)
PAIRS = ("C1", "C2", "C3", "C4")
SETTINGS = ("fewest", "most")
FUTURES = ("replay", "novel")
FEWEST = {"C1": 1, "C2": 1, "C3": 1, "C4": 2}
MOST_OF_LENGTH_512 = {"C1": 2, "C2": 2, "C3": 4, "C4": 8}
NOMINAL_PAIR = {1024: "C1", 2048: "C2", 4096: "C3", 8192: "C4", 7328: "C4", 7776: "C4"}


def ceiling_division(numerator: int, denominator: int) -> int:
    """The quotient rounded up."""
    return -(-numerator // denominator)


def fits(context: int, event_length: int, n_events: int) -> bool:
    """Whether E*(l+32) <= 0.58*context."""
    return 100 * n_events * (event_length + GAP) <= 58 * context


def context_for(nominal_context: int, event_length: int, n_events: int) -> int:
    """The nominal context, or ceil(E*(l+32)/0.58) where the events need more."""
    if fits(nominal_context, event_length, n_events):
        return nominal_context
    return ceiling_division(100 * n_events * (event_length + GAP), 58)


def most_events(context: int, event_length: int) -> int:
    """The "most" setting of a nominal context; l = 512 has printed values of its own."""
    if event_length == 512 and context in NOMINAL_PAIR:
        return MOST_OF_LENGTH_512[NOMINAL_PAIR[context]]
    events = 1
    while fits(context, event_length, 2 * events):
        events *= 2
    return events


def events_in(context_pair: str, nominal_context: int, event_length: int, setting: str) -> int:
    """The number of history events of a setting."""
    if setting == "fewest":
        return FEWEST[context_pair]
    return most_events(nominal_context, event_length)


def layout(context: int, event_length: int, n_events: int) -> list[int]:
    """The first step of every event: prefix, then E slots spread evenly, then the end buffer."""
    prefix = 40 * context // 100
    end_buffer = ceiling_division(2 * context, 100)
    spare = context - prefix - end_buffer - n_events * (event_length + GAP)
    if spare < 0:
        raise ValueError(f"{n_events} events of {event_length} steps do not fit {context} steps")
    stride = event_length + GAP + spare // n_events
    return [prefix + event * stride for event in range(n_events)]
