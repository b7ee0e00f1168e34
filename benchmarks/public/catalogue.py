# SPDX-License-Identifier: Apache-2.0
"""Public model definitions, by family.

The definitions come from timm, torchvision and transformers, at their own sizes. Nothing is
downloaded: the weights are random.
"""

from __future__ import annotations

from dataclasses import dataclass

INPUT = "x"
"""The name of the input of an exported model."""


@dataclass(frozen=True)
class PublicModel:
    """A model of a public package.

    Attributes
    ----------
    family : str
        The kind of architecture.
    source : str
        The package that defines it; a key of :data:`public.definitions.MAKERS`.
    name : str
        Its name there.
    """

    family: str
    source: str
    name: str


_FAMILIES = {
    "classic": "torchvision: alexnet vgg11_bn squeezenet1_0",
    "residual": "torchvision: resnet50; timm: resnetv2_50 darknet53 nfnet_l0 tresnet_m",
    "grouped": "torchvision: resnext50_32x4d regnet_x_400mf; timm: dpn68 gernet_s",
    "separable": (
        "torchvision: mobilenet_v2 mobilenet_v3_large mnasnet1_0 shufflenet_v2_x1_0; "
        "timm: xception41 mobilenetv4_conv_small lcnet_050 tf_mixnet_s ghostnet_100"
    ),
    "multi-branch": (
        "torchvision: googlenet inception_v3 densenet121; timm: inception_v4 "
        "inception_resnet_v2 res2net50_14w_8s nasnetalarge hrnet_w18_small dla34 cspdarknet53 "
        "ese_vovnet19b_dw selecsls42b resnest14d"
    ),
    "squeeze-and-excitation": (
        "torchvision: efficientnet_b0 regnet_y_400mf; timm: seresnet50 tf_efficientnet_b0 "
        "tf_efficientnet_lite0 rexnet_100 skresnet18"
    ),
    "re-parameterised": "timm: repvgg_a0 mobileone_s0 repvit_m0_9 fastvit_t8",
    "modern convolutional": (
        "torchvision: convnext_tiny; timm: convnextv2_atto inception_next_tiny starnet_s1 "
        "edgenext_small focalnet_tiny_srf"
    ),
    "attention": (
        "torchvision: vit_b_16 swin_t swin_v2_t maxvit_t; timm: deit_tiny_patch16_224 "
        "mobilevit_s levit_128s xcit_nano_12_p16_224 mvitv2_tiny davit_tiny halonet26t "
        "botnet26t_256 efficientformer_l1 coat_lite_tiny beit_base_patch16_224"
    ),
    "mixer": "timm: mixer_b16_224 resmlp_12_224 gmlp_s16_224 poolformer_s12 sequencer2d_s",
    "segmentation": (
        "torchvision: fcn_resnet50 deeplabv3_mobilenet_v3_large lraspp_mobilenet_v3_large; "
        "transformers: segformer"
    ),
    "detection": "torchvision: resnet50_fpn ssdlite; transformers: yolos",
    "text": "transformers: bert distilbert roberta albert electra mpnet deberta_v2 t5_encoder",
    "audio": "transformers: whisper_encoder wav2vec2 audio_spectrogram",
}


def _listed(family: str, text: str) -> list[PublicModel]:
    return [
        PublicModel(family, source, name)
        for part in text.split(";")
        for source, _, names in [part.strip().partition(": ")]
        for name in names.split()
    ]


MODELS = [model for family, text in _FAMILIES.items() for model in _listed(family, text)]
TINY = (
    "shufflenet_v2_x1_0",
    "lcnet_050",
    "convnextv2_atto",
    "xcit_nano_12_p16_224",
    "electra",
)
"""Small models of different families, which CI compiles."""


def find(name: str) -> PublicModel:
    """Return the model of a name.

    Raises
    ------
    KeyError
    """
    return {model.name: model for model in MODELS}[name]
