# SPDX-License-Identifier: Apache-2.0
"""What makes measured latencies invalid: code that emits, runs or times stages; nothing else."""

from __future__ import annotations

import ast
import re
import runpy
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import tvm_ffi

import tvm_ios
from support.paths import ROOT
from tvm_ios.database import code_digest, package_version
from tvm_ios.support.object_store import ObjectStore

PACKAGES = Path(tvm_ios.__file__).resolve().parents[1]

KERNEL = "tvm_ios/backend/cpu/kernels/conv/conv2d.py"
COUNTED = [
    KERNEL,
    "tvm_ios/backend/cpu/rules/dense.py",
    "tvm_ios/backend/cpu/stage/partition.py",
    "tvm_ios/backend/cuda/kernels/gemm_block.py",
    "tvm_ios/lowering/legalize.py",
    "tvm_ios/measure/timing/stages.py",
    "tvm_ios/ops/epilogue.py",
    "tvm_ios/backend/cpu/isa/emit.py",
    "tvm_ios/support/threads.py",
    "tvm_ios_env/machine.py",
    "tvm_ios_runtime/threads.py",
]
NOT_COUNTED = [
    "tvm_ios/frontend/models.py",
    "tvm_ios/graph/dag.py",
    "tvm_ios/search/core.py",
    "tvm_ios/backend/cpu/code/network.py",
    "tvm_ios/measure/learned/active.py",
    "tvm_ios/measure/learned/features.py",
]
CPP_STAGE = "runtime/cpu_stage.cc"

Edit = Callable[[str], str]


def add_code(text: str) -> str:
    return f"{text}\nEDITED = 1\n"


def add_comment(text: str) -> str:
    return f"# Edited.\n{text}\n# Edited.\n"


def edit_docstrings(text: str) -> str:
    edited = re.sub(r'"""(.*?)"""', r'"""Edited. \1"""', text, flags=re.DOTALL)
    assert edited != text
    return edited


def reformat(text: str) -> str:
    """Write it as Python itself does, without comments."""
    return ast.unparse(ast.parse(text))


def rewrite(path: Path, edit: Edit) -> None:
    path.write_text(edit(path.read_text()))


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages' files that are edited; to parse all others would take longer."""
    copy = tmp_path_factory.mktemp("python")
    for name in (*COUNTED, *NOT_COUNTED):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGES / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def before(packages: Path) -> str:
    return code_digest.python_digest(packages)


def after(packages: Path, name: str, edit: Edit) -> str:
    """The digest with a file edited, which is then as it was."""
    path = packages / name
    text = path.read_text()
    try:
        path.write_text(edit(text))
        return code_digest.python_digest(packages)
    finally:
        path.write_text(text)


@pytest.mark.parametrize("name", COUNTED)
def test_code_that_decides_a_latency_counts(packages: Path, before: str, name: str) -> None:
    assert after(packages, name, add_code) != before


@pytest.mark.parametrize("edit", [add_comment, edit_docstrings, reformat])
def test_text_does_not_count(packages: Path, before: str, edit: Edit) -> None:
    assert after(packages, KERNEL, edit) == before


@pytest.mark.parametrize("name", NOT_COUNTED)
def test_other_code_does_not_count(packages: Path, before: str, name: str) -> None:
    assert after(packages, name, add_code) == before


def test_a_number_or_a_name_counts(packages: Path, before: str) -> None:
    """Also where a line more or less would not tell."""
    path = packages / KERNEL
    tree = ast.parse(path.read_text())
    number = next(
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and type(node.value) is int
    )
    number.value += 1
    assert after(packages, KERNEL, lambda _: ast.unparse(tree)) != before


def test_files_that_come_count(packages: Path, before: str) -> None:
    readme, kernel = (
        packages / "tvm_ios" / "backend" / name for name in ("README.md", "kernel.py")
    )
    try:
        readme.write_text("Edited.")
        assert code_digest.python_digest(packages) == before
        kernel.touch()
        assert code_digest.python_digest(packages) != before
    finally:
        readme.unlink()
        kernel.unlink(missing_ok=True)


def test_what_is_left_out_is_not_used_by_what_counts() -> None:
    """But by the back ends' front doors, which hand both out."""
    doors = {"tvm_ios.backend.cpu.backend", "tvm_ios.backend.cuda.backend"}
    left_out = {module_of(PACKAGES / name) for name in code_digest._UNTIMED}
    for path in code_digest.timed_sources(PACKAGES):
        if module_of(path) not in doors:
            assert not imported(path) & left_out, path


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGES).with_suffix("").parts)


def imported(path: Path) -> set[str]:
    """The modules that a file takes names from."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            package = module_of(path).split(".")[: -node.level] if node.level else []
            found.add(".".join([*package, *filter(None, [node.module])]))
    return found


def test_the_library_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert package_version().endswith(f"/{code_digest.code_digest()}")
    compute = code_digest.code_digest.__wrapped__
    here = compute()
    assert here == code_digest.code_digest()
    get = tvm_ffi.get_global_func("tvm_ios.runtime.SourceDigest")
    assert re.fullmatch("[0-9a-f]{64}", get())
    monkeypatch.setattr(code_digest.tvm_ffi, "get_global_func", lambda name: lambda: "another")
    assert compute() != here


@pytest.fixture(scope="module")
def builder() -> SimpleNamespace:
    """The script that the build runs."""
    # No import, which would leave bytecode among the sources that a build depends on.
    return SimpleNamespace(**runpy.run_path(str(ROOT / "cmake" / "source_digest.py")))


@pytest.fixture
def src(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ROOT / "src", tmp_path / "src"))


@pytest.mark.parametrize(
    "name", [CPP_STAGE, "runtime/launch/claims.cc", "runtime/cuda/timing.cc", "support/checked.h"]
)
def test_cpp_code_that_runs_stages_counts(builder: SimpleNamespace, src: Path, name: str) -> None:
    before = builder.source_digest(src, ["Release"])
    rewrite(src / name, lambda text: f"{text}\nint edited;\n")
    assert builder.source_digest(src, ["Release"]) != before


@pytest.mark.parametrize("name", ["search/dp.cc", "graph/dag.h", "support/intern_table.h"])
def test_other_cpp_code_does_not_count(builder: SimpleNamespace, src: Path, name: str) -> None:
    before = builder.source_digest(src, ["Release"])
    rewrite(src / name, lambda text: f"{text}\nint edited;\n")
    assert builder.source_digest(src, ["Release"]) == before


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: f"// Edited.\n{text}\n/* Edited,\n twice. */\n",
        lambda text: re.sub(r"(?m)//.*$|\n$", "", text),
        lambda text: text.replace("\n", "\n\n").replace(";", " ;"),
    ],
)
def test_cpp_text_does_not_count(builder: SimpleNamespace, src: Path, edit: Edit) -> None:
    before = builder.source_digest(src, ["Release"])
    rewrite(src / CPP_STAGE, edit)
    assert (src / CPP_STAGE).read_text() != (ROOT / "src" / CPP_STAGE).read_text()
    assert builder.source_digest(src, ["Release"]) == before


def test_how_cpp_is_built_counts(builder: SimpleNamespace, src: Path) -> None:
    assert builder.source_digest(src, ["Release"]) != builder.source_digest(src, ["Debug"])


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("a  /* b */c // d\n", ["a", "c"]),
        ('"//" /* " */ b', ['"//"', "b"]),
        (r'"\"//" b', [r'"\"//"', "b"]),
        ("'\"' // b", ["'\"'"]),
        ("1'000 // '", ["1'000"]),
        ('R"x(a // " b)x" // c', ['R"x(a // " b)x"']),
        ("# define A\nB", ["#", "define", "A", "\n", "B"]),
        ("# define A \\\nB\nC", ["#", "define", "A", "B", "\n", "C"]),
    ],
)
def test_cpp_tokens(builder: SimpleNamespace, text: str, tokens: list[str]) -> None:
    assert list(builder.tokens(text)) == tokens


def test_what_did_not_change_is_not_written(
    builder: SimpleNamespace, src: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "digest.cc"
    monkeypatch.setattr("sys.argv", ["source_digest.py", str(src), str(output), "Release"])
    builder.main()
    assert f'"{builder.source_digest(src, ["Release"])}"' in output.read_text()
    first = output.stat().st_mtime_ns
    builder.main()
    assert output.stat().st_mtime_ns == first


def test_the_digest_is_computed_once_for_the_same_bytes(packages: Path, tmp_path: Path) -> None:
    store = ObjectStore(tmp_path)
    digest = code_digest._remembered(packages, store)
    assert digest == code_digest.python_digest(packages)
    assert code_digest._remembered(packages, store) == digest
    assert store.usage().objects == 1


def test_edited_bytes_are_looked_at_again(packages: Path, tmp_path: Path) -> None:
    store = ObjectStore(tmp_path)
    before = code_digest._remembered(packages, store)
    path = packages / KERNEL
    text = path.read_text()
    try:
        path.write_text(add_code(text))
        assert code_digest._remembered(packages, store) != before
        path.write_text(add_comment(text))
        assert code_digest._remembered(packages, store) == before
    finally:
        path.write_text(text)
    assert store.usage().objects == 3
