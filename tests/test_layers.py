"""Imports point downwards, and a command loads only the modules that it uses."""

import ast
import os
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from published_configs import sized

PACKAGE = Path(__file__).parents[1] / "pefourier"
FILES = sorted(PACKAGE.rglob("*.py"))
PLAN = (PACKAGE.parent / ".github/CONTRIBUTING.md").read_text(encoding="utf-8")
QUESTION = "every file of `questions`"
FLOORS = [  # lowest floor first
    {QUESTION} if rooms == QUESTION else set(re.findall(r"`([^`]+)`", rooms))
    for _, rooms in sorted(
        (int(floor), rooms) for floor, rooms in re.findall(r"^\| (\d+) \| (.+?) \|", PLAN, re.M)
    )
]
FLOOR = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
QUESTIONS = {f"questions.{p.stem}" for p in PACKAGE.glob("questions/*.py")}
FLOOR |= dict.fromkeys(QUESTIONS, FLOOR[QUESTION])


@cache
def tree_of(path):
    return ast.parse(path.read_text())


@cache
def imports(path, *, of_types=True):
    """Return the imports of a file, of types too except in the package's `__init__`."""
    return [*read_imports(tree_of(path), of_types and path != PACKAGE / "__init__.py")]


def read_imports(tree, of_types):
    named = [] if of_types else [node for node in ast.walk(tree) if isinstance(node, ast.If)]
    unread = {id(x) for n in named if ast.unparse(n.test) == "TYPE_CHECKING" for x in ast.walk(n)}
    for node in (node for node in ast.walk(tree) if id(node) not in unread):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module, [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)


def room_of(module):
    """Return the room of a module: the module itself or the folder of rooms that contains it."""
    parts = module.split(".")
    names = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
    return next((name for name in names if name in FLOOR), None)


def rooms_imported(path):
    for module, names in imports(path):
        if module.split(".")[0] == "pefourier":
            inner = module.partition(".")[2]
            for full in [f"{inner}.{name}".strip(".") for name in names] or [inner]:
                room = room_of(full)
                assert room, f"{full} has no floor"
                yield room


def test_imports_point_downwards():
    upward = []
    for path in FILES:
        own = room_of(".".join(path.relative_to(PACKAGE).with_suffix("").parts))
        assert own, f"{path} has no floor"
        for room in set(rooms_imported(path)) - {own}:
            if not (FLOOR[room] < FLOOR[own] or {room, own} <= QUESTIONS):
                upward.append(f"{path.relative_to(PACKAGE)}: {own} must not import {room}")
    assert upward == []


def test_no_module_imports_itself_in_a_circle():
    """The graph of all modules has no circle, inside a folder either."""
    modules = {".".join(p.relative_to(PACKAGE.parent).with_suffix("").parts): p for p in FILES}
    graph = {
        name: {
            full
            for module, names in imports(path)
            for full in [module, *(f"{module}.{one}" for one in names)]
            if full in modules
        }
        for name, path in modules.items()
    }
    assert "pefourier.geometry.precision" in graph["pefourier.geometry.closest"]
    TopologicalSorter(graph).prepare()  # raises an error that names the circle


def test_dataclasses_are_frozen():
    """All dataclasses are frozen, except options and classes of training."""
    unfrozen = {
        str(path.relative_to(PACKAGE)).partition("/")[0]
        for path in FILES
        for node in ast.walk(tree_of(path))
        for decorator in getattr(node, "decorator_list", ())
        if ast.unparse(decorator).partition("(")[0] == "dataclass"
        and "frozen=True" not in ast.unparse(decorator)
    }
    assert unfrozen <= {"cli", "train"}


def test_configs_are_read_through_one_entry():
    """Other folders and tests import only names that huggingface/__init__.py exports."""
    folder = PACKAGE / "encodings/sources/huggingface"
    inner = {
        f"{path.name}: {module}"
        for path in [*FILES, *PACKAGE.parent.glob("tests/**/*.py")]
        if folder not in path.parents
        for module, _ in imports(path)
        if module.startswith("pefourier.encodings.sources.huggingface.")
    }
    assert inner == set()


@pytest.mark.parametrize(
    ("library", "rooms"),
    [("matplotlib", {"plot.py"}), ("torch", {"nn.py", "record.py", "tables.py"}), ("rich", set())],
)
def test_a_heavy_library_has_few_doors(library, rooms):
    users = {
        path.name
        for path in FILES
        if "train" not in path.parts
        for module, _ in imports(path, of_types=False)
        if module.split(".")[0] == library
    }
    assert users <= rooms


HEAVY = {"torch", "matplotlib", "pandas", "scipy", "rich"}


UNUSED = {  # modules that an answer does without, by the command; each takes milliseconds
    **dict.fromkeys(("--help", "list", "explain gap"), HEAVY | {"numpy"}),
    **dict.fromkeys(("spectrum --d 256", "reconstruct --pos 5 40 75", "check-faithful"), HEAVY),
    "spectrum rope": {"hashlib", "pefourier.geometry.precision"},
    "context a.json": {"numpy.ma", "pandas", "zipfile", "pefourier.construction.waves"},
    "compare a.json b.json": {"zipfile", "pefourier.construction.grids"}
    | {"pefourier.questions.relations", "pefourier.geometry.singular_values"},
}


@pytest.mark.parametrize("command", UNUSED)
def test_a_command_loads_no_module_that_its_answer_does_not_use(command, tmp_path, written):
    for name, base in (("a", 1e4), ("b", 5e5)):
        written(sized("llama", 512, 4, 4096, rope_theta=base), f"{name}.json")
    code = f"import sys; from pefourier.cli.main import main; status = main({command.split()!r}); "
    code += f"print(status < 2, sorted({UNUSED[command]!r} & set(sys.modules)), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
    )
    assert done.stderr.splitlines()[-1] == "True []"


def test_every_room_of_the_plan_is_there():
    named = set().union(*FLOORS) - {QUESTION}
    paths = [PACKAGE.joinpath(*room.split(".")) for room in named]
    assert all(p.is_dir() or p.with_suffix(".py").is_file() for p in paths)
    folders = {p.name for p in PACKAGE.iterdir() if (p / "__init__.py").is_file()}
    assert folders - {"questions"} <= named
