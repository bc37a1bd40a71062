"""Which of our runs are a model of the paper: by name, and run with the paper's settings."""

import importlib
import inspect

from ..report.models import Model

__all__ = ["PAPERS_SUITE", "is_default", "published_name"]

PAPERS_SUITE = "whatif-v1"  # the one that the paper's figures and findings are of

# What the paper calls forecasters of ours that have another name.
_NAMES = {"tabpfn-ts": "tabpfn-3.5", "t0": "t0-gamma"}
# The last part of a provider's name for a language model -> the paper's, to which it adds the
# reasoning effort.
_LANGUAGE_MODELS = {
    "claude-opus-4-8": "claude-opus-4.8",
    "gemini-3.1-pro-preview": "gemini-3.1-pro",
}
# What makes a language model another model, not other settings of it.
_IDENTITY = ("model", "reasoning_effort")


def published_name(model: Model) -> str | None:
    """What the paper calls a model; None for a language model that the paper does not have.

    Language models are known by their settings: whatever they are called, `settings["model"]` is
    the provider's name and `settings["reasoning_effort"]` the effort.
    """
    if not _is_language_model(model):
        return _NAMES.get(model.forecaster, model.forecaster)
    base = _LANGUAGE_MODELS.get(str(model.run.settings["model"]).rsplit("/", 1)[-1])
    effort = model.run.settings.get("reasoning_effort")
    return f"{base}-{effort}" if base and effort else None


def is_default(model: Model) -> bool:
    """Whether a run has the settings that the registry's factory takes by default.

    Those are the paper's where the paper gives them (ridge's alpha of 10), else the packages' own.
    Of a language model, the model and its effort are its name; another server, temperature or
    limit is not the default. Forecasters that are not in the registry have no default.
    """
    from ..forecasters import FORECASTERS

    language = _is_language_model(model)
    factory = FORECASTERS.get("llm" if language else model.forecaster)
    if factory is None:
        return False
    module, _, name = factory.partition(":")
    parameters = inspect.signature(getattr(importlib.import_module(module), name)).parameters
    return all(
        model.run.settings.get(each.name, each.default) == each.default
        for each in parameters.values()
        if each.default is not each.empty and not (language and each.name in _IDENTITY)
    )


def _is_language_model(model: Model) -> bool:
    return {"model", "prompt"} <= set(model.run.settings)
