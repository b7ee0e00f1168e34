# SPDX-License-Identifier: Apache-2.0
"""A builder of Relax functions that names variables for modules."""

from __future__ import annotations

from tvm import relax

from ..support.modules import module_path, variable_name


class NamingBuilder(relax.BlockBuilder):  # type: ignore[misc]
    """A builder that names what is emitted after the module that it belongs to.

    Attributes
    ----------
    module : str
        The module whose operators are being emitted; "" for none.
    """

    module = ""
    _parts = 0

    def part_name(self, kind: str) -> str:
        """Return a name for another function of the network."""
        self._parts += 1
        return f"{kind}_{self._parts}"

    def emit(self, expr: relax.Expr, name_hint: str = "") -> relax.Var:
        return super().emit(expr, name_hint or variable_name(self.module))

    def emit_output(self, output: relax.Expr, name_hint: str = "") -> relax.Var:
        """Emit an output under the name of the value that it is, of which it takes the place."""
        known = module_path(output.name) if isinstance(output, relax.Var) else None
        return super().emit_output(output, name_hint or variable_name(known or ""))
