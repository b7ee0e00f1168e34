# SPDX-License-Identifier: Apache-2.0
"""What tvm_ios finds around it; this package imports neither it nor TVM, which may be broken."""
