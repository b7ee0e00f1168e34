# SPDX-License-Identifier: Apache-2.0
"""mutmut's command line, for which the package is in the current directory."""

from __future__ import annotations

import sys


def main() -> None:
    """Run mutmut without the finder of the editable package, which finds what is not changed."""
    sys.meta_path[:] = [f for f in sys.meta_path if "ScikitBuild" not in type(f).__name__]
    sys.path[:] = [path for path in sys.path if not path.endswith("/python")]
    from mutmut.__main__ import cli  # a development extra

    cli()


if __name__ == "__main__":
    main()
