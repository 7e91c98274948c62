"""``import pefourier``: light, and every room is there when it is first used."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import pefourier

FILES = {path.stem for path in Path(pefourier.__file__).parent.glob("*.py")}
QUESTIONS = FILES - {"__init__", "__main__", "errors", "files"}


def test_dir_shows_each_question_once_and_no_machinery():
    importlib.import_module("pefourier.spectrum")  # one that is loaded is not shown twice
    assert sorted(dir(pefourier)) == sorted({"__version__", "encodings", *QUESTIONS})


@pytest.mark.parametrize("name", sorted({"encodings", "errors", *QUESTIONS}))
def test_a_room_is_imported_when_it_is_first_used(name):
    code = f"import pefourier; print(pefourier.{name}.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"pefourier.{name}\n"


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
