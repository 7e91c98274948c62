"""Compiled training steps, and training without a compiler."""

import shutil

import numpy as np
import pytest
import torch
from training import CPU, SIZES, SMALL, epochs, injection

from pefourier.train import program as compiling
from pefourier.train.data.load import load_task
from pefourier.train.options import Options
from pefourier.train.program import Compiler, Program, Replica, Resident
from pefourier.train.run import run_comparison

COMPANY = ("dft", "learned", "rope", "xpos", "t5", "tupe", "shaw", "shaw:values=true", "none")


@pytest.fixture(scope="module")
def held():
    return Resident(load_task("order:count=40,length=8"), CPU)


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("g++"), reason="there is no C++ compiler")
def test_compiled_steps_are_the_eager_ones(held):
    """Compiled steps equal eager steps with all injections in a stack, half of it trained."""
    notes = []
    members = [
        Replica(name, injection(name, 0, learn=bool(i % 2)), 0, 0) for i, name in enumerate(COMPANY)
    ]
    compiler = Compiler(notes.append)
    plain = Program(held, SIZES, members, epochs(1))
    compiled = Program(held, SIZES, members, epochs(1), compiler)
    for _ in range(2):
        torch.testing.assert_close(compiled.train(3), plain.train(3), rtol=1e-5, atol=1e-5)
    for name, p in plain.parameters.items():
        torch.testing.assert_close(compiled.parameters[name], p, rtol=1e-5, atol=1e-5, msg=name)
    assert (compiler.works, len(notes)) == (True, 1)


def test_training_goes_on_where_nothing_compiles(held, monkeypatch):
    """One note reports that compiling failed."""

    def refuse(_):
        raise torch._dynamo.exc.TorchDynamoException("there is no compiler\nand much more")

    import torch._dynamo.exc

    monkeypatch.setattr(compiling, "compile_function", refuse)
    notes, members = [], [Replica(name, injection(name), 0, 0) for name in ("dft", "t5")]
    plain = Program(held, SIZES, members, epochs(1)).train(6)
    compiler = Compiler(notes.append)
    for _ in range(2):
        running = Program(held, SIZES, members, epochs(1), compiler)
        np.testing.assert_array_equal(running.train(6), plain)
    assert not compiler.works
    assert [note for note in notes if "there is no compiler" in note] == notes[1:]
    assert len(notes) == 2


def test_the_order_free_baseline_is_never_compiled(monkeypatch):
    """Stacks of transformers are compiled where that saves time."""
    calls, notes = [], []
    monkeypatch.setattr(compiling, "compile_function", lambda loss: calls.append(loss) or loss)
    run_comparison(Options(**{**SMALL, "seeds": 1}), note=notes.append)
    assert not calls
    monkeypatch.setattr("pefourier.train.ensembles.pays_to_compile", lambda *_: True)
    run_comparison(Options(**{**SMALL, "seeds": 1}), note=notes.append)
    assert len({*calls}) == 1
    assert [line for line in notes if "compiling" in line] == [
        f"compiling the step of {n} members" for n in (1, 2)
    ]
