"""The fused program beside the loop a user writes."""

import re

import bench_training as bench
from training import CPU

from pefourier.train.data.load import load_task
from pefourier.train.injection import ACTS
from pefourier.train.model import Transformer


def test_the_bench_trains_both_programs(monkeypatch):
    task, sizes = load_task("order:count=60,length=6"), Transformer(6, 2, 2, d=8, heads=2)
    ensembles, program = [], bench.fit.Program
    monkeypatch.setattr(
        bench.fit, "Program", lambda *args: ensembles.append(args[2]) or program(*args)
    )
    told = bench.report(bench.Setting(task, sizes, 5, 8, 4, CPU))
    acts = [{m.injection.act for m in stack} for stack in ensembles]
    assert acts == [{"add"}, {"add", "rotate"}, {"bias"}, {"key"}]
    assert set.union(*acts) == set(ACTS)
    assert [len(ensembles[0]), sum(map(len, ensembles[1:]))] == [5, 5]
    assert len(re.findall(r" [\d,]+ examples/s +\d+\.\d\d ×", told)) == 3
