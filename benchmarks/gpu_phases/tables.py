# SPDX-License-Identifier: Apache-2.0
"""What is known of a machine, as text with tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markdown import table

Records = Mapping[str, Mapping[str, Any]]

_ON_GPU = {  # by what JSON calls them
    "launched": "no graph",
    "sequential": "sequential",
    "greedy": "greedy",
    "scheduled": "scheduled",
    "barriers": "barriers",
    "torch_eager": "PyTorch",
    "torch_cudnn": "PyTorch in a graph",
    "torch_reduce_overhead": "torch.compile",
    "tensorrt": "TensorRT",
}
_ON_CPU = {
    **{name: name for name in ("unsearched", "sequential", "greedy", "scheduled", "barriers")},
    "onnxruntime": "ONNX Runtime",
}


def summary(records: Records) -> str:
    """All that is known, in Markdown."""
    facts = records["facts"]
    sections = map(list, (_facts(facts), _selftest(records), _answers(records), _gpu(records),
                          _cpu(records), _tests(records), _unfinished(records)))  # fmt: skip
    written = ("\n".join(lines) for lines in sections if lines)
    return "\n\n".join([f"# {facts['device']}", *written]) + "\n"


def _facts(facts: Mapping[str, Any]) -> Iterator[str]:
    environment = facts.get("environment", {})
    if environment:
        cpu, packages = environment["cpu"], environment["packages"]
        yield f"- {facts['nvidia_smi']}"
        yield f"- {cpu['name']}, {cpu['usable']} cores"
        yield f"- {', '.join(f'{n} {v}' for n, v in packages.items() if v is not None)}"
        yield f"- commit {facts['commit']}"


def _of(records: Records, prefix: str) -> dict[str, Mapping[str, Any]]:
    """Results of steps by what is left of their names."""
    return {
        name.removeprefix(prefix): record["result"]
        for name, record in records.items()
        if name.startswith(prefix)
    }


def _selftest(records: Records) -> Iterator[str]:
    checks = records.get("selftest", {}).get("result", {}).get("checks", {})
    if checks:
        count = sum(check["status"] == "ok" for check in checks.values())
        yield f"## Self-test: {count} of {len(checks)} checks are ok\n"
    for name, check in checks.items():
        if check["status"] != "ok":
            yield f"- {name}: {check['status']}, {check['detail']}"


def _answers(records: Records) -> Iterator[str]:
    rows = [
        (name, f"{max(result['max_rel_errors']):.1e}", result["reference"])
        for name, result in _of(records, "answers-").items()
        if "max_rel_errors" in result
    ]
    if rows:
        yield "## Answers: the largest error relative to the largest output\n"
        yield table(["network", "error", "reference"], rows)


def _gpu(records: Records) -> Iterator[str]:
    """A row for each stage of a network that was timed; ours alone only where there is no other."""
    found = {
        (network, stage): {**result["stages"].get("found", {}), **told}
        for network, result in _of(records, "gpu-").items()
        for stage, told in result.get("stages", {}).items()
        if "timings" in told and f"{stage}, beside peers" not in result["stages"]
    }
    if not found:
        return
    names = [n for n in _ON_GPU if any(n in told["timings"] for told in found.values())]
    yield "## GPU: milliseconds run after run (one by one)\n"
    header = ["network", "", *(_ON_GPU[n] for n in names), "search s", "error"]
    rows = [
        (
            network,
            stage.partition(",")[0],
            *(_timing(told["timings"].get(n)) for n in names),
            _number(told.get("search_s") if stage == "searched" else None, ".1f"),
            _number(told.get("max_rel_error"), ".1e"),
        )
        for (network, stage), told in found.items()
    ]
    yield table(header, rows)


def _timing(timing: Mapping[str, Any] | None) -> str:
    if timing is None:
        return "–"
    back_to_back, latency = timing["back_to_back_ms"], timing["latency_ms"]
    return f"{back_to_back['median']:.3f} ({latency['median']:.3f})"


def _cpu(records: Records) -> Iterator[str]:
    """A row for each network and number of threads, and what the schedule gains."""
    found = {
        (network, int(threads)): result
        for name, result in _of(records, "cpu-").items()
        for network, _, threads in [name.rpartition("-")]
        if "ms" in result
    }
    if found:
        yield "## CPU: milliseconds\n"
        header = ["network", "threads", *_ON_CPU.values(), "gain", "search s", "error"]
        yield table(header, [_cpu_row(*key, found[key]) for key in sorted(found)])


def _cpu_row(network: str, threads: int, result: Mapping[str, Any]) -> Sequence[str]:
    ms = result["ms"]
    known = {"sequential", "scheduled"} <= ms.keys()
    return (
        network,
        str(threads),
        *(_number(ms.get(name), ".3f") for name in _ON_CPU),
        _number(ms["sequential"] / ms["scheduled"] if known else None, ".3f"),
        _number(result.get("search_s"), ".1f"),
        _number(result.get("max_rel_error"), ".1e"),
    )


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _tests(records: Records) -> Iterator[str]:
    found = _of(records, "tests-")
    if found:
        yield "## Tests\n"
    for file, result in found.items():
        outcomes = result.get("tests", {})
        passed = sum(outcome == "passed" for outcome in outcomes.values())
        yield f"- {file}: {passed} of {len(outcomes)} passed"
        yield from (f"  - {n}: {o}" for n, o in outcomes.items() if o != "passed")


def _unfinished(records: Records) -> Sequence[str]:
    lines = [
        f"- {name}: {record['status']}, {record['failure']}"
        for name, record in records.items()
        if "failure" in record
    ]
    return ["## Not done\n", *lines] if lines else []
