"""Compiled training steps, and training without a compiler."""

import shutil

import numpy as np
import pytest
import torch
from training import CPU, SIZES, SMALL, epochs, injection

from pefourier.errors import PefourierError
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
    compiler = Compiler("on", notes.append)
    plain = Program(held, SIZES, members, epochs(1))
    compiled = Program(held, SIZES, members, epochs(1), compiler)
    for _ in range(2):
        torch.testing.assert_close(compiled.train(3), plain.train(3), rtol=1e-5, atol=1e-5)
    for name, p in plain.parameters.items():
        torch.testing.assert_close(compiled.parameters[name], p, rtol=1e-5, atol=1e-5, msg=name)
    assert (compiler.works, len(notes)) == (True, 1)


def test_training_goes_on_where_nothing_compiles(held, monkeypatch):
    """One note reports that compiling failed, and --compile on is refused in one line."""

    def refuse(_):
        raise torch._dynamo.exc.TorchDynamoException("there is no compiler\nand much more")

    import torch._dynamo.exc

    monkeypatch.setattr(compiling, "compile_function", refuse)
    notes, members = [], [Replica(name, injection(name), 0, 0) for name in ("dft", "t5")]
    plain = Program(held, SIZES, members, epochs(1)).train(6)
    compiler = Compiler("auto", notes.append)
    for _ in range(2):
        running = Program(held, SIZES, members, epochs(1), compiler)
        np.testing.assert_array_equal(running.train(6), plain)
    assert not compiler.works
    assert [note for note in notes if "there is no compiler" in note] == notes[1:]
    assert len(notes) == 2
    running = Program(held, SIZES, members, epochs(1), Compiler("on", notes.append))
    with pytest.raises(PefourierError, match="there is no compiler") as caught:
        running.step()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("choice", "compiled"), [("on", True), ("auto", False), ("off", False)])
def test_the_option_decides_whether_stacks_are_compiled(monkeypatch, choice, compiled):
    """On a CPU the option decides; the order-free baseline is never compiled."""
    calls = []
    monkeypatch.setattr(compiling, "compile_function", lambda loss: calls.append(loss) or loss)
    options = Options(**{**SMALL, "seeds": 1, "epochs": 1, "compile": choice})
    notes = []
    run_comparison(options, note=notes.append)
    assert bool(calls) == compiled
    assert any("compiling" in note for note in notes) == compiled
