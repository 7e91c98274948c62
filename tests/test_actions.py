"""The GitHub action and the README install what the package needs."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / ".github/check/action.yml").read_text())


def test_the_action_and_the_readme_install_what_the_package_asks_for():
    requested = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    install = ACTION["runs"]["steps"][1]["run"].splitlines()[0]
    light = [one for one in requested if not one.startswith(("torch", "matplotlib", "pandas"))]
    assert re.findall(r'"([^"]+)"', install) == light
    lines = [line.strip() for line in (ROOT / "README.md").read_text().splitlines()]
    (first,) = (at for at, line in enumerate(lines) if line.startswith('pip install "'))
    assert re.findall(r'"([^"]+)"', lines[first]) == [x for x in requested if "torch" not in x]
    assert lines[first + 1] == "pip install --no-deps ."
