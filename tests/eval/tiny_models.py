"""Tiny randomly initialised models, built offline by the packages' own classes into a folder.

Weights are drawn wide, so that forecasts move with every input; they forecast nothing well.
"""

import dataclasses
import importlib
import json
from pathlib import Path

import pytest

DECILES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

# Forecaster name -> module that its package installs.
PACKAGES = {
    "chronos-2": "chronos",
    "timesfm-3": "timesfm3",
    "tirex-2": "tirex2",
    "t0": "t0",
    "timestral": "timestral",
    "ts-icl": "tsicl",
}


def build(name: str, folder: Path, levels=DECILES, context: int = 2048) -> Path:
    """Save a tiny model of a forecaster into `folder`; skips where its package is missing."""
    pytest.importorskip("torch")
    pytest.importorskip(PACKAGES[name])
    import torch

    torch.manual_seed(20)
    folder.mkdir(parents=True, exist_ok=True)
    _BUILD[name](folder, tuple(levels), context)
    return folder


def _widen(network, scale: float = 0.5):
    """Larger weights than a model starts from: several start from (almost) zero somewhere."""
    import torch

    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=scale / parameter.shape[-1] ** 0.5)
    return network


def _chronos(folder, levels, context):
    from chronos.chronos2 import Chronos2Model
    from chronos.chronos2.config import Chronos2CoreConfig

    patch = 16
    config = Chronos2CoreConfig(
        d_model=16, d_kv=4, d_ff=32, num_layers=2, num_heads=4, vocab_size=2, reg_token_id=1,
        chronos_config=dict(
            context_length=context, output_patch_size=patch, input_patch_size=patch,
            input_patch_stride=patch, quantiles=list(levels), use_reg_token=True,
            use_arcsinh=True, max_output_patches=8, time_encoding_scale=512,
        ),
        architectures=["Chronos2Model"], chronos_pipeline_class="Chronos2Pipeline",
    )  # fmt: skip
    _widen(Chronos2Model(config), 1.0).save_pretrained(folder)


def _timesfm(folder, levels, context):
    from timesfm3.torch import ResidualBlockConfig, StackedTransformersConfig, TransformerConfig
    from timesfm3.torch.model import TimesFM3Torch

    transformer = TransformerConfig(
        model_dims=16, hidden_dims=16, num_heads=2, attention_norm="rms", feedforward_norm="rms",
        qk_norm="rms", use_bias=False, use_rope_seq=True, use_rope_var=True, ff_activation="relu",
        deterministic=True,
    )  # fmt: skip
    settings = dict(
        quantiles=list(levels),
        residual_block_config=ResidualBlockConfig(16, 16, use_bias=False, activation="relu"),
        transformer_config=StackedTransformersConfig(2, transformer),
    )
    network = TimesFM3Torch(**settings)
    network.pre_transformer_resblock.set_input_dims(
        2 * (network.input_patch_len + network.output_patch_len)
    )
    config = {
        key: dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value
        for key, value in settings.items()
    }
    _widen(network, 1.0).save_pretrained(folder, config=config)


def _tirex(folder, levels, context):
    from safetensors.torch import save_file
    from tirex2 import TiRex2
    from tirex2._state_dict import shared_tensor_groups

    width, patch = 128, 32
    mixers = dict(embedding_dim=width, num_heads=4)
    template = dict(
        time_mixer=dict(model_type="bi-slstm", num_slstm_heads=4, **mixers),
        variate_mixer=mixers, dropout=0.0, eps=1e-6,
    )  # fmt: skip
    config = dict(
        stack_config=dict(templates=dict(only=template), recipe=["only"]), num_blocks=1,
        embedding_dim=width, input_patch_size=patch, output_patch_size=patch,
        quantiles=list(levels), scaler_cfg=dict(use_arcsinh=True), h_expand=1.0,
        tokenizer_cfg=dict(
            output_patch_size=patch, input_patch_size=patch, input_patch_stride=patch
        ),
        context_len=context, future_len=320, input_ff_dim=width, act_func="torch.nn.ReLU",
        dropout=0.0, device="cpu",
    )  # fmt: skip
    network = _widen(TiRex2(**json.loads(json.dumps(config))))
    tensors = network.state_dict()
    for group in shared_tensor_groups(network):  # a checkpoint holds each of them once
        for alias in group[1:]:
            tensors.pop(alias, None)
    save_file(
        {key: value.contiguous() for key, value in tensors.items()}, folder / "model.safetensors"
    )
    (folder / "config.json").write_text(json.dumps(config))


def _t0(folder, levels, context):
    from t0.config import T0Config
    from t0.torch import T0Forecaster

    config = T0Config(
        embed_dim=32, num_layers=2, num_heads=2, mlp_hidden_dim=64, patch_size=16,
        group_every_n=2, dropout=0.0, quantile_levels=tuple(levels),
    )  # fmt: skip
    _widen(T0Forecaster.from_config(config), 0.2).save_pretrained(folder)


def _timestral(folder, levels, context):
    from safetensors.torch import save_file
    from timestral import TimestralConfig, TimestralModel

    config = TimestralConfig(
        patch_size=16, d_model=32, num_heads=2, mlp_hidden_dim=64,
        block_schedule=("time_variate",) * 2, quantile_knots=tuple(levels), block_size=8,
        context_length=context,
    )  # fmt: skip
    save_file(_widen(TimestralModel(config)).state_dict(), folder / "model.safetensors")
    config.save(folder / "config.json")


def _tsicl(folder, levels, context):
    import torch
    from hydra.utils import instantiate

    # The package counts its levels out evenly and has no other set.
    quantiles = dict(start_quantile=0.01, end_quantile=0.99, nb_quantiles=99, quantile_median=49)
    module, scales = "tsicl.model", [3, 4]
    config = dict(
        _target_=f"{module}.network.TSICLNetwork",
        encoder=dict(
            _target_=f"{module}.encoder.PerceiverEncoder", num_latents=8, hidden_dim=16,
            latent_dim=16, depth=1, latent_heads=2, latent_dim_head=8, cross_heads=2,
            cross_dim_head=8, scales=scales, use_kl=False,
        ),
        head=dict(
            _target_=f"{module}.icl_learning.ICLearningCrossAttn", d_model=16, num_blocks=1,
            nhead=2, dim_feedforward=32, cross_heads=2, cross_dim_head=8, **quantiles,
        ),
        max_context_len=context, max_target_len=512,
    )  # fmt: skip
    weights = _widen(instantiate(config)).state_dict()
    torch.save({"config": config, "forecaster": weights, "imputer": weights}, folder / "tiny.ckpt")


_BUILD = {
    "ts-icl": _tsicl,
    "chronos-2": _chronos,
    "timesfm-3": _timesfm,
    "tirex-2": _tirex,
    "t0": _t0,
    "timestral": _timestral,
}


def make(name: str, folder: Path, **settings):
    """The forecaster of a folder, through the registry."""
    from eval.forecasters import FORECASTERS

    module, _, factory = FORECASTERS[name].partition(":")
    return getattr(importlib.import_module(module), factory)(
        model=str(folder), device="cpu", **settings
    )
