# SPDX-License-Identifier: Apache-2.0
"""``python -m tvm_ios`` is the command ``tvm-ios``."""

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
