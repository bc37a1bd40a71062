"""What the tests of `evaluate` share."""

BATCH = 16


def named(function, **attributes):
    """A function as a forecaster with attributes."""
    for name, value in attributes.items():
        setattr(function, name, value)
    return function
