# SPDX-License-Identifier: Apache-2.0
"""Write a C++ file with a digest of the sources that run and time stages.

``python source_digest.py SRC OUTPUT [SETTING ...]``: SRC is the directory that includes are
relative to, and a setting is what else of the build decides a latency. The build calls it; it needs
nothing but Python.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

_RUNTIME = "runtime"
_INCLUDE = re.compile(r'\s*#\s*include\s*"([^"]+)"')
_TOKEN = re.compile(
    r"""
      (?P<comment> //[^\n]* | /\*.*?\*/ )
    | (?P<newline> \n )
    | (?P<space> \s+? )
    | (?P<code>
          (?:u8|u|U|L)?R"(?P<mark>[^\s()\\"]*)\(.*?\)(?P=mark)"  # a raw string
        | "(?:\\.|[^"\\\n])*"
        | \.?\d(?:'\w|[eEpP][+-]|[\w.])*                         # a number, perhaps 1'000
        | '(?:\\.|[^'\\\n])*'
        | \w+
        | .
      )
    """,
    re.VERBOSE | re.DOTALL,
)

_TEMPLATE = """\
// Written by cmake/source_digest.py.
#include "ffi/source_digest.h"

namespace tvm_ios {{

const char* const kSourceDigest = "{digest}";

}}  // namespace tvm_ios
"""


def timed_sources(src: Path) -> list[Path]:
    """Return the runtime's sources and all that they include of ``src``, sorted."""
    found: set[Path] = set()
    ahead = [path for path in (src / _RUNTIME).rglob("*") if path.suffix in (".cc", ".h")]
    while ahead:
        path = ahead.pop()
        if path in found:
            continue
        found.add(path)
        names = map(_INCLUDE.match, path.read_text(encoding="utf-8").splitlines())
        included = (src / match[1] for match in names if match)
        ahead += [header for header in included if header.is_file()]
    return sorted(found)


def tokens(text: str) -> Iterator[str]:
    """Yield the tokens of C++ code, without comments and without the space between them.

    The end of a line is a token only after a preprocessor directive, which it ends.
    """
    directive = begun = False
    for match in _TOKEN.finditer(text.replace("\\\n", "")):
        if match.lastgroup == "newline":
            if directive:
                yield "\n"
            directive = begun = False
        elif match["code"] is not None:
            directive |= not begun and match["code"] == "#"
            begun = True
            yield match["code"]


def source_digest(src: Path, settings: Iterable[str]) -> str:
    """Return a digest, in hexadecimal, of the code below ``src`` that runs and times stages.

    Parameters
    ----------
    src : Path
        The directory of the C++ sources.
    settings : iterable of str
        What the code is built with, as far as it decides a latency.
    """
    digest = hashlib.sha256("\0".join(settings).encode())
    for path in timed_sources(src):
        digest.update(b"\0\0" + path.relative_to(src).as_posix().encode())
        for token in tokens(path.read_text(encoding="utf-8")):
            digest.update(b"\0" + token.encode())
    return digest.hexdigest()


def main() -> None:
    src, output, *settings = sys.argv[1:]
    text = _TEMPLATE.format(digest=source_digest(Path(src), settings))
    path = Path(output)
    # Only what changed is compiled again.
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
