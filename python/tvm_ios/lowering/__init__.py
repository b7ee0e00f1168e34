# SPDX-License-Identifier: Apache-2.0
"""What the back ends share: operators with kernels, stages, replacements, the emitter."""
