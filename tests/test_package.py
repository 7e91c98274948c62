"""``import pefourier``: light, and every room is there when it is first used."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import pefourier
from pefourier.errors import PefourierError

FILES = {path.stem for path in Path(pefourier.__file__).parent.glob("*.py")}
ROOMS = FILES - {"__init__", "__main__"} - pefourier.QUESTIONS


def in_a_new_process(code):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_dir_shows_each_question_once_and_no_machinery():
    importlib.import_module("pefourier.spectrum")  # one that is loaded is not shown twice
    shown = ["PefourierError", "__version__", "encodings", "nn"]
    assert dir(pefourier) == sorted([*shown, *pefourier.QUESTIONS])
    assert len(set(map(id, (getattr(pefourier, name) for name in dir(pefourier))))) == len(
        dir(pefourier)
    )


@pytest.mark.parametrize("name", sorted({"encodings", *ROOMS}))
def test_a_room_is_imported_when_it_is_first_used(name):
    code = f"import pefourier; print(pefourier.{name}.__name__)"
    assert in_a_new_process(code) == f"pefourier.{name}\n"


@pytest.mark.parametrize("name", sorted(pefourier.NAMESAKES))
@pytest.mark.parametrize(
    "before",
    [
        "import pefourier",
        "import pefourier.{0}",
        "import pefourier.{0} as room",
        "from pefourier.{0} import *",
        "pefourier.{0}; from pefourier import {0}; import pefourier.{0}",
        "import importlib; importlib.import_module('pefourier.{0}')",
    ],
)
def test_a_question_is_not_hidden_by_the_room_of_its_name(name, before):
    """However the room was imported, and its own names stay where older code looks for them."""
    code = f"import pefourier; {before.format(name)}; print(type(pefourier.{name}).__name__)"
    assert in_a_new_process(code) == "function\n"


def test_what_older_code_calls_is_still_there():
    code = (
        "import pefourier.spectrum, pefourier.faithful, numpy as np; t = np.eye(4); "
        "print(pefourier.spectrum.density(t).lattice, pefourier.faithful.assess(t).verdict, "
        "pefourier.compare.compare(t, t).verdict, pefourier.design.design_base(8, 8).length)"
    )
    assert in_a_new_process(code) == "4 isometric equal 8\n"


def test_the_one_error_is_at_hand():
    assert pefourier.PefourierError is PefourierError
    with pytest.raises(pefourier.PefourierError, match=r"^unknown encoding 'dtf'"):
        pefourier.check("dtf")


def test_questions_are_told_to_type_checkers_by_name():
    """What `__getattr__` gives at run time stands in the source for mypy and editors."""
    tree = ast.parse(Path(pefourier.__file__).read_text())
    (block,) = (
        node
        for node in tree.body
        if isinstance(node, ast.If) and "TYPE_CHECKING" == ast.unparse(node.test)
    )
    told = {alias.asname for node in block.body for alias in node.names}
    assert told == set(dir(pefourier)) - {"__version__"}


def test_the_package_loads_no_numpy():
    code = "import sys, pefourier; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("name", ["plots", "__wrapped__"])
def test_what_is_not_there_is_no_attribute(name):
    with pytest.raises(AttributeError, match=f"^module 'pefourier' has no attribute '{name}'$"):
        getattr(pefourier, name)
    assert not hasattr(pefourier, name)


def test_a_room_that_fails_to_import_says_why(tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text("import no_such_library")
    monkeypatch.setattr(pefourier, "__path__", [*pefourier.__path__, str(tmp_path)])
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'no_such_library'$"):
        _ = pefourier.broken
