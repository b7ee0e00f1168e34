# SPDX-License-Identifier: Apache-2.0
"""Preparation of a Relax module for the extraction of operators."""

from __future__ import annotations

from collections.abc import Callable

import tvm
from tvm import relax

from ..relax_ir.expressions import static_shape
from ..relax_ir.functions import relax_function
from ..support.errors import ModelError
from ..support.text import last_line
from .affine import fold_affine
from .assignments import assign_ranges
from .attention import attention_raiser
from .batch_norm import simplify_batch_norm
from .batches import keep_batches
from .broadcasts import move_broadcasts
from .compositions import raise_compositions
from .concats import distribute_over_concat
from .constants import fold_constants
from .conv1d import widen_convolutions
from .definite import make_definite
from .einsums import multiply_labels
from .empty import fill_empty_sums
from .flattened import reorder_weights
from .grids import expand_grids
from .halves import widen_halves
from .indices import safe_indices
from .late import bind_late
from .layout import channels_first
from .means import divide_integer_sums
from .moves import remove_empty_moves
from .one_hots import take_rows
from .one_row import widen_rows
from .orders import order_nan
from .pads import absorb_pads
from .permutations import move_permutations
from .quantization import dequantize_in_float
from .raising import raise_calls
from .reciprocals import multiply_by_reciprocals
from .recurrence import unroll_recurrences
from .remaining_constants import fold_the_rest
from .reshaped import compute_before_division
from .results import copy_bare_results, inline_returned_tuple
from .scales import sink_scales
from .splits import slice_channels
from .takes import slice_takes
from .transposed import convolve_transposed

_NESTED = 6  # enough for a scale, a shift and a relu after one concatenation, or a quantisation


def prepare(
    mod: tvm.IRModule,
    function: str = "main",
    *,
    checks_indices: bool = True,
    attention_depth: int = 0,
    recurrences: bool = True,
    halves: bool = True,
    transposed: bool = False,
) -> tvm.IRModule:
    """Return ``mod`` in the form that :func:`~tvm_ios.graph.extract.extract` reads.

    The preparation finds the operators that TIR functions stand for, makes indices safe and
    converts images to NCHW. Batch normalisation becomes a scale and a shift, which are folded into
    the preceding convolution if its weights are constant. Elementwise operations move to places
    where they are free; see :mod:`.concats` and :mod:`.scales`. Constants are folded, and pure
    bindings are moved into dataflow blocks.

    Parameters
    ----------
    mod : tvm.IRModule
        A high-level Relax module. It is not changed.
    function : str
        The name of the function to schedule.
    checks_indices : bool
        Whether generated code can raise an error for an index out of bounds; if not, indices are
        clamped.
    attention_depth : int
        The largest size of the heads of an attention that becomes one operator.
    recurrences : bool
        Whether a recurrent layer stays one operator; if not, its steps are unrolled. So does the
        search for a grid.
    halves : bool
        Whether 16-bit floating-point numbers stay what is computed in; if not, float32 is.
    transposed : bool
        Whether a transposed convolution by constant weights stays one; if not, it becomes a
        convolution whose channels are moved to pixels.

    Raises
    ------
    ModelError
        If the module has no such Relax function, an input has a dynamic shape or is neither a
        tensor nor a tuple of tensors, or a constant index is out of bounds.
    """
    for parameter in relax_function(mod, function).params:
        _check_input(parameter)
    entries = sorted({function, *_entries(mod)})
    passes = _passes(
        function, entries, checks_indices, attention_depth, recurrences, halves, transposed
    )
    try:
        return tvm.transform.Sequential(passes)(mod)
    except IndexError as error:  # constant folding runs the checks of constant indices
        raise ModelError(last_line(error)) from error


def _passes(
    function: str,
    entries: list[str],
    checks_indices: bool,
    attention_depth: int,
    recurrences: bool,
    halves: bool,
    transposed: bool,
) -> list[tvm.transform.Pass]:
    """Return all rewrites in their order, with the passes of TVM between them."""
    return [
        relax.transform.Normalize(),
        *([] if halves else [_on(function, widen_halves)]),
        relax.transform.ConvertToDataflow(min_size=1),
        relax.transform.CanonicalizeBindings(),
        _on(function, raise_calls),
        _on(function, make_definite),
        *([] if recurrences else [_on(function, r) for r in (unroll_recurrences, expand_grids)]),
        safe_indices(function, checked=checks_indices),
        order_nan(function),
        _on(function, dequantize_in_float),
        _on(function, multiply_labels),
        _on(function, move_permutations),
        _on(function, fill_empty_sums),
        _on(function, divide_integer_sums),
        _on(function, absorb_pads),
        _on(function, widen_convolutions),
        channels_first(function),
        *([] if transposed else [_on(function, convolve_transposed)]),
        _on(function, slice_channels),
        _on(function, simplify_batch_norm),
        relax.transform.DeadCodeElimination(entries),
        _on(function, multiply_by_reciprocals),  # FoldConstant fails on a division by zero
        _on(function, fold_constants),
        fold_the_rest,
        _on(function, slice_takes),
        _on(function, assign_ranges),
        _on(function, remove_empty_moves),
        _on(function, keep_batches),
        _on(function, reorder_weights),
        relax.transform.CanonicalizeBindings(),  # patterns match names that are defined later
        _on(function, move_broadcasts),
        _on(function, take_rows),
        _on(function, compute_before_division),
        _on(function, raise_compositions),
        _on(function, widen_rows),
        relax.transform.CanonicalizeBindings(),
        _on(function, attention_raiser(attention_depth)),
        relax.transform.DeadCodeElimination(entries),
        *[_on(function, distribute_over_concat)] * _NESTED,
        _on(function, fold_affine),
        _on(function, sink_scales),
        relax.transform.EliminateCommonSubexpr(),
        relax.transform.CanonicalizeBindings(),
        relax.transform.DeadCodeElimination(entries),
        _on(function, inline_returned_tuple),
        _on(function, copy_bare_results),
        _on(function, bind_late),
    ]


def _check_input(variable: relax.Var) -> None:
    """Raise ModelError unless ``variable`` is a tensor of known shape, or a tuple of such."""
    if isinstance(variable.ty, relax.TupleType):
        for i, ty in enumerate(variable.ty.fields):
            _check_input(relax.Var(f"{variable.name}[{i}]", ty))
        return
    if not isinstance(variable.ty, relax.TensorType):
        raise ModelError(
            f"Input {variable.name!r} is {variable.ty}, but inputs must be tensors; bind it before "
            "scheduling."
        )
    static_shape(variable, f"input {variable.name!r}")


def _entries(mod: tvm.IRModule) -> list[str]:
    """Return the functions that code outside the module may call."""
    return [
        gv.name_hint
        for gv, f in mod.functions.items()
        if isinstance(f, relax.Function) and f.attrs and "global_symbol" in f.attrs
    ]


Rewrite = Callable[[tvm.IRModule, relax.Function], relax.Function]


def _on(name: str, rewrite: Rewrite) -> tvm.transform.Pass:
    """Return a module pass that rewrites one Relax function."""

    @tvm.transform.module_pass(opt_level=0, name=f"tvm_ios.{rewrite.__name__}")
    def apply(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
        result = mod.clone()
        result.update_func(result.get_global_var(name), rewrite(mod, mod[name]))
        return result

    return apply
