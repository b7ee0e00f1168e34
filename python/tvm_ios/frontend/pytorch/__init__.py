# SPDX-License-Identifier: Apache-2.0
"""Reading of PyTorch's models, and tensors of PyTorch as their inputs.

torch is imported only if there is a model of it.
"""

from .program import (
    exported,
    from_exported,
    from_file,
    from_module,
    is_exported,
    is_module,
    load_program,
)
from .shapes import resized, with_batch

__all__ = [
    "exported", "from_exported", "from_file", "from_module", "is_exported", "is_module",
    "load_program", "resized", "with_batch",
]  # fmt: skip
