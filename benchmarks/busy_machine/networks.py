# SPDX-License-Identifier: Apache-2.0
"""The networks: from some ten microseconds to some ten milliseconds a call on two cores.

Files that take time to make are kept: a network's ONNX file, its inputs, what its outputs should
be, and the library that is compiled from it.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tvm_ffi

import tvm_ios
from busy_machine.graphs import GRAPHS
from peer.contender import REFERENCE
from peer.models import random_inputs
from peer.process import Assignment, Worker, run_tool
from tvm_ios import zoo
from tvm_ios.database.code_digest import digest_of
from tvm_ios.support.files import replacing


@dataclass(frozen=True)
class Network:
    """A network by its name.

    Attributes
    ----------
    name : str
    zoo : str or None
        Its name in the zoo; those without are in :mod:`.graphs`.
    size : dict
        The zoo's sizes, where they are not its own.
    """

    name: str
    zoo: str | None = None
    size: dict[str, Any] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write the ONNX file."""
        if self.zoo is None:
            onnx.save(GRAPHS[self.name](), path)
        else:
            zoo.export_onnx(self.zoo, path, **self.size)


def _zoo(name: str) -> Network:
    return Network(name, name)


NETWORKS = {
    network.name: network
    for network in (
        Network("mlp"),
        _zoo("mixer_b16_small"),
        Network("lstm_cell"),
        Network("two_tower"),
        Network("recommender"),
        Network("mixture"),
        Network("decoder_step"),
        _zoo("googlenet_small"),
        _zoo("mobilenet_v2_small"),
        Network("text_cnn"),
        Network("squeezenet_64", "squeezenet", {"image_size": 64}),
        _zoo("inception_v3_small"),
        _zoo("bert_tiny"),
        _zoo("nasrnn"),
        _zoo("mobilenet_v2"),
        _zoo("squeezenet"),
        _zoo("googlenet"),
        _zoo("resnet18"),
        _zoo("inception_v3"),
        _zoo("xception"),
    )
}
"""About in the order of how long they take."""


def companion(name: str) -> str:
    """Return the network that is called at the same time as another, and takes about as long."""
    names = list(NETWORKS)
    place = names.index(name) + 1
    return names[place if place < len(names) else place - 2]


@dataclass(frozen=True)
class Files:
    """A network's files; each is made when it is first asked for.

    Attributes
    ----------
    network : Network
    folder : Path
        Where the files of all networks are kept.
    threads : int
        Of the library.
    search : bool
        Whether the library's schedule is searched for.
    """

    network: Network
    folder: Path
    threads: int
    search: bool

    @property
    def own(self) -> Path:
        """The folder of this network."""
        path = self.folder / self.network.name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def model(self) -> Path:
        """Return the ONNX file, with static shapes."""
        path = self.own / "model.onnx"
        if not path.exists():
            with replacing(path) as (draft,):
                self.network.write(draft)
        return path

    def inputs(self) -> Path:
        """Return the inputs, which are random."""
        path = self.own / "inputs.npz"
        if not path.exists():
            arrays = random_inputs(self.model(), 0)
            with replacing(path) as (draft,):
                np.savez(draft, **arrays)
        return path

    def expected(self) -> Path:
        """Return the outputs of ONNX Runtime without optimisations."""
        path = self.own / "expected.npz"
        if not path.exists():
            with replacing(path) as (draft,):
                assignment = Assignment(self.model(), self.inputs(), draft, self.threads, 0.0)
                Worker(REFERENCE, assignment, self.own / "reference.log").close()
        return path

    @property
    def library_path(self) -> Path:
        """Where the library of this compiler is, if it has been made."""
        kind = "searched" if self.search else "sequential"
        return self.own / f"{kind}-{self.threads}-{compiler_digest()}.so"

    def library(self) -> Path:
        """Compile the network, or return the library that the same compiler made before."""
        path = self.library_path
        if not path.exists():
            command = ["tvm_ios", "compile", str(self.model()), "--threads", str(self.threads)]
            command += ["--no-database"] if self.search else ["--no-search"]
            with replacing(path) as (draft,):
                run_tool([*command, "-o", str(draft)], self.own / "compile.log")
        return path


@functools.cache
def compiler_digest() -> str:
    """Return 12 hexadecimal digits that change with the compiler's code, in Python and in C++."""
    package = Path(tvm_ios.__file__).parent
    python = digest_of(sorted(package.rglob("*.py")), package.parent)
    cpp = tvm_ffi.get_global_func("tvm_ios.runtime.SourceDigest")()
    return hashlib.sha256(f"{python} {cpp}".encode()).hexdigest()[:12]
