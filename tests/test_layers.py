"""Imports point downwards, and a command loads only what it uses."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "pefourier"
DOORS = ("pefourier", "encodings", "families", "train")  # folders whose __init__ does something
FILES = sorted(p for p in PACKAGE.rglob("*.py") if p.name[0] != "_" or p.parent.name in DOORS)
FLOORS = [  # a module imports only from floors below its own; one floor's rooms are strangers
    {"__init__", "errors"},
    {"files", "answers.terminal_chart", "answers.text"},
    {"answers.catalogue", "encodings"},
    {"geometry"},
    {"nn", "relations", "spectrum", "compare", "diagnosis"},
    {"reconstruct", "faithful"},
    {"answers.report"},
    {"answers.plot"},
    {"train"},
    {"cli.request", "cli.train_options"},
    {"reproduce"},
    {"cli.commands"},
    {"__main__"},
]
FLOOR = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module, [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)


def room_of(module):
    """The room that a module stands in: itself, or the folder of rooms around it."""
    parts = module.split(".")
    names = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
    return next((name for name in names if name in FLOOR), None)


def rooms_imported(path):
    for module, names in imports(path):
        if module.split(".")[0] == "pefourier":
            inner = module.partition(".")[2]
            for full in [f"{inner}.{name}".strip(".") for name in names] or [inner]:
                room = room_of(full)
                assert room or names == ["__version__"], f"{full} has no floor"
                yield from [room] * bool(room)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_downwards(path):
    own = room_of(".".join(path.relative_to(PACKAGE).with_suffix("").parts))
    assert own, f"{path} has no floor"
    for room in set(rooms_imported(path)) - {own}:
        assert FLOOR[room] < FLOOR[own], f"{own} must not import {room}"


@pytest.mark.parametrize(
    ("library", "rooms"),
    [("matplotlib", {"plot.py"}), ("torch", {"nn.py", "formats.py"}), ("rich", set())],
)
def test_a_heavy_library_has_few_doors(library, rooms):
    users = {
        path.name
        for path in FILES
        if "train" not in path.parts
        for module, _ in imports(path)
        if module.split(".")[0] == library
    }
    assert users <= rooms


HEAVY = "{'torch', 'matplotlib', 'scipy', 'rich'}"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["list"],
        ["spectrum", "--rho", "10000", "--d", "256"],
        ["reconstruct", "--pos", "5", "40", "75"],
        ["check-faithful"],
    ],
    ids=" ".join,
)
def test_analysis_starts_without_heavy_libraries(arguments):
    code = (
        "import sys; from pefourier.cli.commands import main; "
        f"status = main({arguments!r}); "
        f"print(status, sorted({HEAVY} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "0 []"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["list"]], ids=" ".join)
def test_help_and_list_start_without_numpy(arguments):
    code = (
        "import sys; from pefourier.cli.commands import main; "
        f"main({arguments!r}); print('numpy' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "False"
