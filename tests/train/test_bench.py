"""The fused program beside the loop a user writes."""

import re

import bench_training as bench
from training import CPU

from pefourier.train.data.load import load_task
from pefourier.train.injection import ACTS
from pefourier.train.model import Transformer


def test_the_bench_trains_both_programs(monkeypatch):
    task, sizes = load_task("order:count=60,length=6"), Transformer(6, 2, 2, d=8, heads=2)
    stacks, program = [], bench.fit.Program
    monkeypatch.setattr(
        bench.fit, "Program", lambda *args: stacks.append(args[2]) or program(*args)
    )
    first, *told = bench.report(bench.Setting(task, sizes, 5, 8, 4, CPU)).splitlines()
    assert first.startswith("5 members, batch 8, 4 steps, 6 tokens, d 8, cpu, torch ")
    assert [{m.injection.act for m in stack} for stack in stacks] == [{"add"}, set(ACTS)]
    names = ("user's loop, eager float32", "fused program", "fused program, mixed stack")
    for name, line in zip(names, told, strict=True):
        assert re.fullmatch(name + r" +[\d,]+ examples/s +\d+\.\d\d ×", line)
