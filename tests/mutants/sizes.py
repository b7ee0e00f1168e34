# SPDX-License-Identifier: Apache-2.0
"""Mutants of what is computed of sizes that are known when a network runs."""

from __future__ import annotations

from .mutant import Mutant

_FRONTEND = "python/tvm_ios/frontend"
_BRANCHES = "frontend/onnx/test_open_branches.py"
_REQUIREMENTS = "frontend/onnx/test_open_requirements.py"
_QUANTIZED = "frontend/onnx/test_open_quantized.py"

MUTANTS = (
    Mutant(
        "a convolution takes any number of channels",
        f"{_FRONTEND}/size_requirements.py",
        '**dict.fromkeys(("nn.conv1d", "nn.conv2d", "nn.conv3d"), _conv),',
        "",
        (f"{_REQUIREMENTS}::test_weights_decide",),
    ),
    Mutant(
        "indices may have more rows than the data",
        f"{_FRONTEND}/size_requirements.py",
        '("gather_elements", "scatter_elements"), _beside_axis',
        '("scatter_elements",), _beside_axis',
        (f"{_REQUIREMENTS}::test_places_lie_inside_of_the_data",),
    ),
    Mutant(
        "the padding of an image of bytes is a byte of 0",
        "python/tvm_ios/backend/cpu/kernels/conv/tile.py",
        "        if not conv.padding:\n",
        "        if conv:\n",
        (f"{_QUANTIZED}::test_padding_of_one_side",),
    ),
    Mutant(
        "sizes are checked by the drivers alone",
        "python/tvm_ios/backend/cpu/code/network.py",
        "        if self.opened is not None:\n            self.builder",
        "        if self.opened is None:\n            self.builder",
        (f"{_REQUIREMENTS}::test_what_tvm_lowers_is_checked_too",),
    ),
    Mutant(
        "a batch of 1 is assumed where an example has it",
        "python/tvm_ios/sizes/size.py",
        "            if self.hint == hint_of(other):  # by chance",
        "            if self.hint is None:  # by chance",
        ("sizes/test_size.py::test_that_sizes_are_equal_is_not_assumed_by_chance",),
    ),
    Mutant(
        "what is added behind the last tap is left out",
        "python/tvm_ios/rewrite/transposed.py",
        "(0, max(0, int(added) - int(cut)))",
        "(0, 0)",
        ("rewrite/test_transposed.py::test_any_geometry",),
    ),
    Mutant(
        "a branch checks nothing of its own",
        "python/tvm_ios/backend/cpu/code/network.py",
        "and not opened.of_branch:",
        "and opened:",
        (f"{_BRANCHES}::test_a_branch_that_tvm_lowers",),
    ),
    Mutant(
        "what a branch requires is required of all",
        "python/tvm_ios/sizes/branches.py",
        "        opened.conditions, opened.restarts, opened.always = outside\n",
        "        opened.restarts, opened.always = outside[1:]\n",
        (f"{_BRANCHES}::test_each_branch_requires_its_own",),
    ),
    Mutant(
        "a branch reads no input for its sizes",
        "python/tvm_ios/frontend/onnx/graph.py",
        "            if not _dimensions([variable]) <= told:\n",
        "            if False:\n",
        (f"{_BRANCHES}::test_sizes_that_no_shape_tells",),
    ),
    Mutant(
        "a loop whose counter is two ahead is taken to its end",
        "python/tvm_ios/frontend/onnx/loop_conditions.py",
        "return ahead <= 1 and known_equal",
        "return ahead <= 2 and known_equal",
        ("frontend/onnx/test_open_loops.py::test_conditions_that_do_not",),
    ),
    Mutant(
        "the second half of a loop begins as the first one does",
        "python/tvm_ios/frontend/open_sweeps.py",
        "            carried = [relax.TupleGetItem(taken, i) for i in range(count)]\n",
        "",
        ("frontend/onnx/test_open_loops.py::test_loops",),
    ),
)
