# SPDX-License-Identifier: Apache-2.0
"""The command ``tvm-ios``: one module per sub-command, with the flags of TVM's former ``tvmc``."""
