# SPDX-License-Identifier: Apache-2.0
"""A runtime for libraries that ``tvm-ios compile`` wrote; it does not need TVM's compiler.

    import tvm_ios_runtime

    model = tvm_ios_runtime.load("model.so")
    (scores,) = model(image)

It needs NumPy, apache-tvm-ffi and TVM's runtime library. It starts in a fraction of a second and
takes no more memory than the network does.
"""

from tvm_ios_runtime.arrays import empty
from tvm_ios_runtime.model import Model, load
from tvm_ios_runtime.opening import LibraryError
from tvm_ios_runtime.tensor_info import TensorInfo
from tvm_ios_runtime.threads import set_defaults

set_defaults()  # before TVM creates a pool

__all__ = ["LibraryError", "Model", "TensorInfo", "empty", "load"]
