"""``import pefourier`` is light, and each room is imported at its first use."""

import ast
import importlib
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import torch

import pefourier


def test_dir_shows_each_question_once_and_no_machinery():
    importlib.import_module("pefourier.questions.spectrum")  # the module is not listed too
    shown = ["PefourierError", "__version__", "encodings", "nn"]
    assert dir(pefourier) == sorted({*shown, *pefourier.__all__})
    assert len({id(getattr(pefourier, name)) for name in dir(pefourier)}) == len(dir(pefourier))
    assert pefourier.PefourierError.__module__ == "pefourier.errors"


@pytest.mark.parametrize("name", ["plots", "__wrapped__"])
def test_unknown_attributes_raise(name):
    with pytest.raises(AttributeError, match=f"^module 'pefourier' has no attribute '{name}'$"):
        getattr(pefourier, name)
    assert not hasattr(pefourier, name)


def test_a_room_that_fails_to_import_says_why(tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text("import no_such_library")
    monkeypatch.setattr(pefourier, "__path__", [*pefourier.__path__, str(tmp_path)])
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'no_such_library'$"):
        _ = pefourier.broken


WITHOUT = """
import sys

class Missing:
    @staticmethod
    def find_spec(name, *_):
        if name in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing)
from pefourier.cli.main import main
print(main({arguments!r}), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (["train", "--steps", "1"], "torch"),
        (["check-faithful", "x.pt"], "torch"),
        (["spectrum", "--plot", "x.png"], "matplotlib"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_missing_package_is_named_in_one_line(arguments, missing):
    torch.save({"a": torch.eye(3)}, "x.pt")
    code = WITHOUT.format(missing=[missing], arguments=arguments)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    stated = f"pefourier: this needs {missing}, which is not installed; pip install {missing}\n2\n"
    assert (done.stdout, done.stderr) == ("", stated)


def test_wheel_and_sdist_are_complete(tmp_path):
    builders = pytest.importorskip("hatchling.builders.wheel")
    sdist = importlib.import_module("hatchling.builders.sdist")
    root = Path(pefourier.__file__).parents[1]
    (wheel,) = builders.WheelBuilder(str(root)).build(directory=str(tmp_path))
    (source,) = sdist.SdistBuilder(str(root)).build(directory=str(tmp_path))
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    files = [p for p in (root / "pefourier").rglob("*") if p.is_file() and "cache" not in str(p)]
    own = {str(p.relative_to(root)) for p in files}
    results = {f"pefourier/{p.relative_to(root)}" for p in root.glob("figures/*/**/summary.json")}
    assert len(results) >= 3
    assert {p for p in packed if ".dist-info/" not in p} == own | results
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tests = {str(p.relative_to(root)) for p in (root / "tests").rglob("*.py")}
    others = {"Makefile", "README.md", "pyproject.toml", ".ci/run", ".pre-commit-hooks.yaml"}
    figures = {str(p.relative_to(root)) for p in (root / "figures").rglob("*.*")}
    assert own | tests | figures | others | {".github/CONTRIBUTING.md", "PKG-INFO"} <= names


def test_no_constant_of_a_module_is_assigned_twice():
    root = Path(pefourier.__file__).parents[1]
    for path in (p for room in ("pefourier", "tests") for p in (root / room).rglob("*.py")):
        plain = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign)]
        names = [ast.unparse(target) for node in plain for target in node.targets]
        names = [one for name in names for one in name.strip("()").split(", ") if one.isupper()]
        assert len(names) == len({*names}), path
