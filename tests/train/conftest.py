"""Run training tests without figures, which take most of the time of a small training."""

from pathlib import Path

import pytest
import torch
from training import CPU, SMALL

from pefourier.report import plot
from pefourier.train.data.load import load_task
from pefourier.train.options import Options
from pefourier.train.program import Resident
from pefourier.train.run import run_comparison

ARMS = ("none", "sinusoidal", "dft@rms=0.5", "rope", "t5", "learned", "shaw", "order-free")


@pytest.fixture(autouse=True)
def without_figures(sketched):
    pass


@pytest.fixture(scope="session")
def held():
    return Resident(load_task("order:count=40,length=8"), CPU, torch.float64)


@pytest.fixture(scope="session")
def options(tmp_path_factory):
    """Return the options of the folder `trained`, which is tested at both lengths."""
    out = tmp_path_factory.mktemp("trained")
    own = {"dataset": ("order:count=80,length=6",), "encoding": ARMS}
    folders = {"out": str(out), "save_models": str(out / "models")}
    return Options(**{**SMALL, **own, **folders}, test_length="6,12")


@pytest.fixture(scope="session")
def trained(options):
    """A folder of results that tests may read but not change."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(plot, "save", lambda path, draw, *_: Path(path).write_text(draw.__name__))
        run_comparison(options)
    return Path(options.out)
