# SPDX-License-Identifier: Apache-2.0
"""Serve a compiled model over HTTP, with TVM's runtime alone: python serve.py MODEL.so [--port N]

A request posts the inputs as an ``.npz`` file and gets the outputs as one. Requests may come at the
same time; each thread runs a virtual machine of its own, and they share the weights.
"""

from __future__ import annotations

import argparse
import io
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from zipfile import BadZipFile

import numpy as np

import tvm_ios_runtime

_LARGEST = 1 << 28  # bytes of a request


def serve(model: tvm_ios_runtime.Model, port: int) -> None:
    """Serve requests on this machine until Ctrl-C; port 0 is any that is free."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            if not 0 < size <= _LARGEST:
                self.send_error(HTTPStatus.BAD_REQUEST, "Post an .npz file of the inputs.")
                return
            try:
                with np.load(io.BytesIO(self.rfile.read(size)), allow_pickle=False) as file:
                    outputs = model.run({name: file[name] for name in file.files})
            except (ValueError, KeyError, OSError, BadZipFile) as error:
                self.send_error(HTTPStatus.BAD_REQUEST, " ".join(str(error).split())[:200])
                return
            answer = io.BytesIO()
            np.savez(answer, **outputs)
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Length", str(answer.tell()))
            self.end_headers()
            self.wfile.write(answer.getvalue())

        def log_message(self, *_arguments: object) -> None:
            """Say nothing of each request."""

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("model", metavar="MODEL.so")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    serve(tvm_ios_runtime.load(options.model), options.port)


if __name__ == "__main__":
    main()
