"""The steps of the GitHub action and of the pre-commit hook, run as a shell runs them."""

import json
import re
import tomllib
from pathlib import Path

import yaml
from published_configs import PUBLISHED, SMALL_LLAMA

ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / ".github/check/action.yml").read_text())
HOOK, TABLES = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())


def test_the_action_and_the_readme_install_what_the_package_asks_for():
    requested = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    install = ACTION["runs"]["steps"][1]["run"].splitlines()[0]
    light = [one for one in requested if not one.startswith(("torch", "matplotlib", "pandas"))]
    assert re.findall(r'"([^"]+)"', install) == light
    lines = [line.strip() for line in (ROOT / "README.md").read_text().splitlines()]
    (first,) = (at for at, line in enumerate(lines) if line.startswith('pip install "'))
    assert re.findall(r'"([^"]+)"', lines[first]) == [x for x in requested if "torch" not in x]
    assert lines[first + 1] == "pip install --no-deps ."


def test_the_hook_names_the_two_broken_configs_of_twenty_and_nothing_else(run, folder):
    plain = [(name, one) for name, one in PUBLISHED.items() if not one.get("rope_scaling")]
    configs = {name: one | {"max_position_embeddings": 64} for name, one in plain[:18]}
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
    llama = SMALL_LLAMA | {"max_position_embeddings": 256, "rope_theta": 1e4}
    configs["broken/one"] = llama | {"rope_scaling": {"rope_type": "linear"}}
    configs["broken/two"] = llama | {"rope_scaling": yarn | {"beta_fst": 32}}
    configs["tools/compiler"] = {"compilerOptions": {"strict": True}}
    for name, config in configs.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "config.json").write_text(json.dumps(config))
    files = sorted(path for name in configs for path in [f"{name}/config.json"])
    assert all(re.search(HOOK["files"], path) for path in files)
    assert not re.search(HOOK["files"], "a/tokenizer_config.json")
    _, *options = HOOK["entry"].split()
    done = run(*options, *HOOK["args"], *files)
    assert done.status == 2
    (line,), (refused,) = done.out.splitlines(), done.err.splitlines()
    assert re.match(r"broken/two/config.json: warning: .*\[unread-key\]$", line)
    assert "'broken/one/config.json'" in refused
    sound = [path for path in files if not path.startswith("broken")]
    done = run(*options, *HOOK["args"], *sound)
    assert (done.status, done.out, done.err) == (0, "", "")
    done = run(*options, "--require", "invertible", *HOOK["args"], sound[0])
    assert (done.status, done.err, done.out.count("[unmet]\n")) == (1, "", 1)
