# SPDX-License-Identifier: Apache-2.0
"""Modules of the catalogue's models, with random weights and example inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Definition = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]

_TEXT = 128  # tokens
_SEED = 0


def define(source: str, name: str) -> Definition:
    """Return a module in inference mode, and inputs of the size that it is published for."""
    torch.manual_seed(_SEED)
    module, inputs = MAKERS[source](name)
    _randomise(module)
    return module.eval(), inputs


def _randomise(module: torch.nn.Module) -> None:
    """Give parameters that are initialised to a constant other values.

    Scales of zero, or of 1e-6, would hide errors of the branches that they multiply; a
    normalisation with mean 0 and variance 1 would hide its own.
    """
    with torch.no_grad():
        for tensor in module.parameters():
            if tensor.numel() > 1 and bool((tensor == tensor.flatten()[0]).all()):
                tensor.add_(0.1 * torch.randn_like(tensor))
        for name, buffer in module.named_buffers():
            if name.endswith("running_mean"):
                buffer.add_(0.1 * torch.randn_like(buffer))
            elif name.endswith("running_var"):
                buffer.mul_(1 + 0.2 * torch.rand_like(buffer))


def _timm(name: str) -> Definition:
    import timm

    module = timm.create_model(name, pretrained=False, exportable=True)
    return module, (torch.randn(1, *module.default_cfg["input_size"]),)


def _torchvision(name: str) -> Definition:
    import torchvision

    if name in _PARTS_OF_DETECTORS:
        return _PARTS_OF_DETECTORS[name]()
    segments = name.startswith(("fcn", "deeplab", "lraspp"))
    given: dict[str, Any] = {"weights": None}
    if name in ("googlenet", "inception_v3"):
        given["init_weights"] = False
    if segments:
        given["weights_backbone"] = None
    module = torchvision.models.get_model(name, **given)
    size = 320 if segments else 299 if name == "inception_v3" else 224
    return (_Output(module, "out") if segments else module), _image(size)


def _image(size: int) -> tuple[torch.Tensor]:
    return (torch.randn(1, 3, size, size),)


class _Output(torch.nn.Module):
    """One output of a model that returns a dictionary."""

    def __init__(self, model: torch.nn.Module, key: str) -> None:
        super().__init__()
        self.model, self.key = model, key

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.model(*inputs)[self.key]


class _Pyramid(torch.nn.Module):
    """A backbone that returns a dictionary of feature maps, as a tuple."""

    def __init__(self, backbone: torch.nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(self.backbone(image).values())


def _resnet50_fpn() -> Definition:
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

    backbone = resnet_fpn_backbone(backbone_name="resnet50", weights=None)
    return _Pyramid(backbone), _image(320)


def _ssdlite() -> Definition:
    """Return SSDlite's backbone and heads, without its post-processing."""
    from torchvision.models.detection import ssdlite320_mobilenet_v3_large

    model = ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None)
    return _Heads(model.backbone, model.head), _image(320)


class _Heads(torch.nn.Module):
    def __init__(self, backbone: torch.nn.Module, head: torch.nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(self.head(list(self.backbone(image).values())).values())


_PARTS_OF_DETECTORS: dict[str, Callable[[], Definition]] = {
    "resnet50_fpn": _resnet50_fpn,
    "ssdlite": _ssdlite,
}


def _transformers(name: str) -> Definition:
    import transformers

    kind, inputs, key, settings = _CONFIGURATIONS[name]
    config = getattr(transformers, f"{kind}Config")(**settings)
    config._attn_implementation = "sdpa" if name in _SDPA else "eager"
    model = getattr(transformers, f"{kind}{_PARTS.get(name, 'Model')}")(config)
    return _Output(model, key), inputs()


_PARTS = {"t5_encoder": "EncoderModel", "whisper_encoder": "ForAudioClassification"}
_SDPA = ("bert", "distilbert", "roberta")  # the others cannot, or are exported as products


def _tokens() -> tuple[torch.Tensor]:
    return (torch.randint(0, 1000, (1, _TEXT)),)


_HIDDEN = "last_hidden_state"
_CONFIGURATIONS: dict[str, tuple[str, Callable[[], tuple[torch.Tensor, ...]], str, dict]] = {
    "bert": ("Bert", _tokens, _HIDDEN, {}),
    "distilbert": ("DistilBert", _tokens, _HIDDEN, {}),
    "roberta": ("Roberta", _tokens, _HIDDEN, {}),
    "albert": (
        "Albert", _tokens, _HIDDEN,
        {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12},
    ),
    "electra": ("Electra", _tokens, _HIDDEN, {}),
    "mpnet": ("MPNet", _tokens, _HIDDEN, {}),
    "deberta_v2": (
        "DebertaV2", _tokens, _HIDDEN,
        {
            "hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 12,
            "num_attention_heads": 6, "relative_attention": True, "position_buckets": 256,
            "pos_att_type": ["p2c", "c2p"], "norm_rel_ebd": "layer_norm", "share_att_key": True,
            "max_relative_positions": -1, "position_biased_input": False, "type_vocab_size": 0,
        },
    ),
    "t5_encoder": ("T5", _tokens, _HIDDEN, {}),
    "segformer": ("Segformer", lambda: _image(224), _HIDDEN, {}),
    "yolos": (
        "Yolos", lambda: _image(224), _HIDDEN,
        {
            "hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768,
            "image_size": [224, 224],
        },
    ),
    "whisper_encoder": ("Whisper", lambda: (torch.randn(1, 80, 3000),), "logits", {}),
    "wav2vec2": ("Wav2Vec2", lambda: (torch.randn(1, 16000),), _HIDDEN, {}),
    "audio_spectrogram": (
        "AST", lambda: (torch.randn(1, 256, 128),), _HIDDEN,
        {"max_length": 256},
    ),
}  # fmt: skip

MAKERS: dict[str, Callable[[str], Definition]] = {
    "timm": _timm,
    "torchvision": _torchvision,
    "transformers": _transformers,
}
