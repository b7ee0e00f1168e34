# SPDX-License-Identifier: Apache-2.0
"""Input bindings: every input is brought into the layout that a kernel reads.

A constant is packed at compile time. A value that has the right layout already is read in place.
Any other value is converted by a phase in front of the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import relax

from ....lowering.no_rule import NoRule
from ....lowering.value import Value
from ....ops.epilogue import Broadcast
from ....ops.tensor import TensorSpec
from ....relax_ir.constants import constant_array
from ....relax_ir.expressions import static_shape
from ....sizes.size import known_equal
from ..core import Core
from ..isa.bfloat16 import Bfloat16, nearest
from ..isa.int8 import Grid
from ..isa.storage import Format
from ..kernels.conv.image import IMAGE, byte_image_kernel, image_kernel
from ..kernels.convert import block_kernel, pack_weights_kernel, unblock_kernel
from ..kernels.kernel import Kernel, convert_input
from ..kernels.layout import PLAIN, Layout, pack_bf16_dot2, pack_weights
from ..kernels.rows.strided import copy_kernel
from ..kernels.storage import with_storage


@dataclass(frozen=True)
class InputBinding:
    """The binding of one input of a kernel.

    Attributes
    ----------
    value : relax.Var or numpy.ndarray
        A variable, or a packed constant.
    conversion : Kernel or None
        Converts the variable's tensor to the layout that the kernel reads.
    """

    value: Value
    conversion: Kernel | None = None


class InputBinder:
    """A factory of input bindings that knows how the values computed so far are stored.

    Parameters
    ----------
    layouts : mapping of relax.Var to Layout
    narrow : mapping of relax.Var to Format
        The values that are not stored as float32.
    core : Core
        The core that converts values.
    """

    def __init__(
        self, layouts: Mapping[relax.Var, Layout], narrow: Mapping[relax.Var, Format], core: Core
    ) -> None:
        self._layouts, self._narrow, self._core = layouts, narrow, core

    def layout(self, expr: relax.Expr) -> Layout:
        """Return the layout of ``expr``."""
        return self._layouts.get(expr, PLAIN) if isinstance(expr, relax.Var) else PLAIN

    def format(self, value: relax.Expr | np.ndarray | None) -> Format | None:
        """Return the format of a value that is not stored as float32; else None."""
        return self._narrow.get(value) if isinstance(value, relax.Var) else None

    def plain(self, expr: relax.Expr) -> InputBinding:
        """Bind ``expr`` as a row-major tensor."""
        return self.feature_map(expr, PLAIN)

    def feature_map(self, expr: relax.Expr, layout: Layout) -> InputBinding:
        """Bind ``expr`` in ``layout``; it has four axes unless both layouts are row-major."""
        array = constant_array(expr)
        if array is not None:
            return InputBinding(layout.pack(array))
        if self.layout(expr) == layout:
            return InputBinding(expr)
        return self._converted(expr, self._conversion(expr, layout))

    def bf16(self, expr: relax.Expr, layout: Layout) -> InputBinding:
        """Bind ``expr`` in ``layout`` as bfloat16, rounded if it is not stored so."""
        if layout == IMAGE and isinstance(expr, relax.Var) and not self.layout(expr).block:
            shape = static_shape(expr, "an image")
            if shape[1] <= IMAGE.block:
                return self._converted(expr, image_kernel(shape, self._core))
        binding = self.feature_map(expr, layout)
        if isinstance(binding.value, np.ndarray):
            return InputBinding(nearest(binding.value))
        if binding.conversion is not None:
            return InputBinding(binding.value, self._rounding(binding.conversion))
        if isinstance(self.format(binding.value), Bfloat16):
            return binding
        copy = copy_kernel(layout.spec(static_shape(expr, "a value")), self._core)
        return InputBinding(
            binding.value, self._rounding(with_storage(copy, self._formats([binding.value]), {}))
        )

    def on_grid(self, expr: relax.Expr, layout: Layout, grid: Grid) -> InputBinding:
        """Bind ``expr``, which is stored on a grid, in ``layout`` as it is stored."""
        shape = static_shape(expr, "an image")
        few = layout == IMAGE and not self.layout(expr).block and shape[1] <= IMAGE.block
        if few and isinstance(expr, relax.Var):
            return InputBinding(expr, byte_image_kernel(shape, self._core))
        if self.layout(expr) == layout:
            return InputBinding(expr)
        return InputBinding(expr, self._conversion(expr, layout, grid.dtype))

    def bound(
        self, kernel: Kernel, bindings: tuple[InputBinding, ...], outputs: Sequence[relax.Var]
    ) -> Kernel:
        """Return a kernel that reads values, and writes results, as they are stored.

        Parameters
        ----------
        kernel : Kernel
            The kernel.
        bindings : tuple of InputBinding
            Its input bindings, whose conversions come in front.
        outputs : sequence of relax.Var
            Its results.
        """
        for spec, binding in zip(kernel.inputs, bindings, strict=True):
            conversion = binding.conversion
            self._check_layout(spec if conversion is None else conversion.inputs[0], binding.value)
        read = [b.value if b.conversion is None else None for b in bindings]
        stored = with_storage(kernel, self._formats(read), self._formats(outputs))
        return apply_conversions(stored, bindings)

    def _check_layout(self, spec: TensorSpec, value: Value) -> None:
        """Make sure that a blocked feature map is read as it lies in memory."""
        if isinstance(value, np.ndarray) or not self.layout(value).block:
            return
        whole = self.layout(value).spec(static_shape(value, "a feature map"))
        same = len(spec.shape) == len(whole.shape) and all(
            map(known_equal, (*spec.shape, *spec.steps), (*whole.shape, *whole.steps))
        )
        assert same, "a feature map is read as it lies in memory"

    def _conversion(self, expr: relax.Expr, layout: Layout, dtype: str = "float32") -> Kernel:
        """Return the kernel that moves numbers of a type to another layout."""
        shape, current = static_shape(expr, "a feature map"), self.layout(expr)
        if current.block and layout.block:
            raise NoRule
        if current.block:
            return unblock_kernel(shape, current, dtype)
        return block_kernel(shape, layout, dtype)

    def _converted(self, expr: relax.Var, conversion: Kernel) -> InputBinding:
        return InputBinding(expr, with_storage(conversion, self._formats([expr]), {}))

    def _rounding(self, conversion: Kernel) -> Kernel:
        return with_storage(conversion, {}, {0: Bfloat16(self._core.bf16_dot2_lanes)})

    def _formats(self, values: Sequence[Value | None]) -> dict[int, Format]:
        """Return the formats of those values that are not stored as float32."""
        found = ((i, self.format(value)) for i, value in enumerate(values))
        return {i: kind for i, kind in found if kind is not None}

    def argument(
        self, expr: relax.Expr, kind: Broadcast, layout: Layout, shape: tuple[int, ...]
    ) -> InputBinding:
        """Bind a tensor argument of an epilogue.

        Parameters
        ----------
        expr : relax.Expr
            The argument.
        kind : Broadcast
            How the argument is broadcast to the result.
        layout : Layout
            Layout of the epilogue's result.
        shape : tuple of int
            Shape of the epilogue's result.

        Returns
        -------
        InputBinding
            The argument in the layout that the kernel reads.

        Raises
        ------
        NoRule
            If the kernel cannot broadcast the argument.
        """
        if kind in ("full", "image"):
            return self.feature_map(expr, layout)
        if kind == "last" and not layout.block:
            return self.plain(expr)
        if kind != "channel":
            raise NoRule
        channels = (1, shape[1], 1, 1)
        array = constant_array(expr)
        if array is not None:
            return InputBinding(layout.pack(array.reshape(channels)))
        if static_shape(expr, "an operand") != channels:
            raise NoRule
        return self.feature_map(expr, layout)

    def bf16_weights(
        self, expr: relax.Expr, in_block: int, out_block: int, groups: int
    ) -> InputBinding:
        """Bind constant convolution weights as bfloat16, see :func:`~.layout.pack_bf16_dot2`.

        The parameters are those of :meth:`weights`.
        """
        return self.constant(expr, lambda array: pack_bf16_dot2(array, in_block, out_block, groups))

    def weights(self, expr: relax.Expr, in_block: int, out_block: int, groups: int) -> InputBinding:
        """Bind convolution weights, packed for the register-tiled kernel.

        Parameters
        ----------
        expr : relax.Expr
            The weights, ``[K, C / groups, R, S]``.
        in_block, out_block : int
            Channels of the input and of the output that lie together.
        groups : int
            Groups of the convolution.

        Returns
        -------
        InputBinding
            The weights as :func:`~.layout.pack_weights` leaves them.

        Raises
        ------
        NoRule
            If the weights were computed by a kernel that blocked them as a feature map.
        """
        array = constant_array(expr)
        if array is not None:
            return InputBinding(pack_weights(array, in_block, out_block, groups))
        if self.layout(expr).block:
            raise NoRule  # a kernel computed it and blocked it as a feature map
        shape = static_shape(expr, "a weight")
        return InputBinding(expr, pack_weights_kernel(shape, in_block, out_block))

    def constant(self, expr: relax.Expr, pack: Callable[[np.ndarray], np.ndarray]) -> InputBinding:
        """Bind a constant packed by ``pack``; raise NoRule for a value known only at run time."""
        array = constant_array(expr)
        if array is None:
            raise NoRule
        return InputBinding(pack(array))


def plain_inputs(binder: InputBinder, values: Iterable[Value]) -> tuple[InputBinding, ...]:
    """Bind values as row-major tensors; arrays are used as they are."""
    return tuple(binder.plain(v) if isinstance(v, relax.Var) else InputBinding(v) for v in values)


def apply_conversions(kernel: Kernel, bindings: tuple[InputBinding, ...]) -> Kernel:
    """Return ``kernel`` with the conversions of its bindings in front."""
    for i, binding in enumerate(bindings):
        if binding.conversion is not None:
            kernel = convert_input(kernel, i, binding.conversion)
        else:
            _check_feed(kernel.inputs[i], binding)
    return kernel


def _check_feed(spec: TensorSpec, binding: InputBinding) -> None:
    if isinstance(binding.value, np.ndarray):
        assert binding.value.shape == spec.shape, "a packed constant has the kernel's shape"
    else:
        size = math.prod(static_shape(binding.value, "an input"))
        assert size <= math.prod(spec.shape), "a value fits into the kernel's input"
