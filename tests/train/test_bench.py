"""The fused program beside the loop a user writes."""

import re

import bench_training as bench
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from pefourier.train.data.load import load_task
from pefourier.train.injection import ACTS
from pefourier.train.model import Transformer


def test_the_bench_trains_both_programs_and_counts_operations(monkeypatch):
    task, sizes = load_task("order:count=60,length=6"), Transformer(6, 2, 2, d=8, heads=2)
    setting = bench.Setting(task, sizes, 5, 8, 4, torch.device("cpu"))
    stacks = []
    program = bench.fit.Program
    monkeypatch.setattr(
        bench.fit, "Program", lambda *args: stacks.append(args[2]) or program(*args)
    )
    first, loop, fused, mixed = bench.report(setting).splitlines()
    assert first.startswith("5 members, batch 8, 4 steps, 6 tokens, d 8, cpu, torch ")
    assert re.fullmatch(r"user's loop, eager float32 +[\d,]+ examples/s +1\.00 ×", loop)
    assert re.fullmatch(r"fused program, mixed stack +[\d,]+ examples/s +\d+\.\d\d ×", mixed)
    assert [{m.injection.act for m in stack} for stack in stacks] == [{"add"}, set(ACTS)]
    assert re.fullmatch(r"fused program +[\d,]+ examples/s +\d+\.\d\d ×", fused)
    own, torchs = bench.flops(sizes), counted(bench.Classifier(sizes, bench.codes_of(setting)))
    assert own == pytest.approx(torchs, rel=0.1)


def counted(classifier):
    # the counter knows attention only as the products it is made of
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        classifier(torch.zeros(1, 6, 2)).sum().backward()
    return counter.get_total_flops()
