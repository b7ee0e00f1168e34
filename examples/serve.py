# SPDX-License-Identifier: Apache-2.0
"""Serve a compiled model over HTTP, with TVM's runtime alone: python serve.py MODEL.so [--port N]

A request posts the inputs as an ``.npz`` file and gets the outputs as one. Requests may come at the
same time. How they are computed, by how many calls at once and up to how many samples in a call,
is what ``tvm-ios bench --throughput -o MODEL.so`` found to be the fastest. With another library,
those that wait are one call if it takes any batch; if not, as many calls run at once as there are
cores.
"""

from __future__ import annotations

import argparse
import io
import os
import queue
import threading
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from zipfile import BadZipFile

import numpy as np

import tvm_ios_runtime

_LARGEST = 1 << 28  # bytes of a request
_MOST = 64  # samples of a call, if the library says nothing

Arrays = dict[str, np.ndarray]


class Batcher:
    """Computes the requests that wait: by several calls at once, and several samples in a call."""

    def __init__(self, model: tvm_ios_runtime.Model) -> None:
        self._model = model
        callers = 1 if model.any_batch else os.cpu_count() or 1
        measured = model.metadata.get("requests", {"callers": callers, "batch": _MOST})
        self._most = measured["batch"] if model.any_batch else 1
        self._waiting: queue.SimpleQueue[tuple[Arrays, Future[Arrays]]] = queue.SimpleQueue()
        for _ in range(measured["callers"]):
            threading.Thread(target=self._work, daemon=True).start()

    def run(self, inputs: Arrays) -> Arrays:
        """Return the outputs of one request; ValueError as of the model."""
        answer: Future[Arrays] = Future()
        self._waiting.put((inputs, answer))
        return answer.result()

    def _work(self) -> None:
        while True:
            requests = [self._waiting.get()]
            samples = _samples(requests[0][0]) or 1
            with suppress(queue.Empty):
                while samples < self._most:
                    requests.append(self._waiting.get_nowait())
                    samples += _samples(requests[-1][0]) or 1
            alike = defaultdict(list)
            for inputs, answer in requests:
                form = frozenset((n, a.dtype.str, a.shape[1:]) for n, a in inputs.items())
                alone = answer if _samples(inputs) == 0 else None
                alike[form, alone].append((inputs, answer))
            for group in alike.values():
                self._answer(*zip(*group, strict=True))

    def _answer(self, inputs: Sequence[Arrays], answers: Sequence[Future[Arrays]]) -> None:
        """Compute requests whose arrays differ in the batch only."""
        try:
            if len(inputs) == 1:
                answers[0].set_result(self._model.run(inputs[0]))
                return
            outputs = self._model.run(
                {name: np.concatenate([its[name] for its in inputs]) for name in inputs[0]}
            )
            begin = 0
            for its, answer in zip(inputs, answers, strict=True):
                end = begin + _samples(its)
                answer.set_result({name: array[begin:end] for name, array in outputs.items()})
                begin = end
        except Exception as error:
            for answer in answers:
                if not answer.done():
                    answer.set_exception(error)


def _samples(inputs: Arrays) -> int:
    """Return the size of the batch that all inputs have; 0 if they have none."""
    sizes = {array.shape[:1] for array in inputs.values()}
    return sum(*sizes) if len(sizes) == 1 else 0


def serve(model: tvm_ios_runtime.Model, port: int) -> None:
    """Serve requests on this machine until Ctrl-C; port 0 is any that is free."""
    batcher = Batcher(model)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            if not 0 < size <= _LARGEST:
                self.send_error(HTTPStatus.BAD_REQUEST, "Post an .npz file of the inputs.")
                return
            try:
                with np.load(io.BytesIO(self.rfile.read(size)), allow_pickle=False) as file:
                    outputs = batcher.run({name: file[name] for name in file.files})
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
