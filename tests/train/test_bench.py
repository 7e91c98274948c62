"""The benchmark of the fused program against its peers."""

import json

import bench_training as bench
import pytest
from training import CPU

from pefourier.train.data.load import load_task
from pefourier.train.model import Transformer


@pytest.fixture
def setting():
    sizes = Transformer(6, 2, 2, d=8, heads=2)
    return bench.Setting(load_task("order:count=60,length=6"), sizes, 5, 8, 4, CPU)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_the_bench_trains_all_programs(setting, monkeypatch, tmp_path):
    rows = bench.measure(setting)
    assert {row["program"] for row in rows} >= {"loop, eager float32", "vmap, eager", "fused"}
    assert all(row["milliseconds"] > 0 for row in rows)
    monkeypatch.setattr(bench, "KEPT", tmp_path / "bench.json")
    bench.KEPT.write_text('{"commands": 1}')
    for _ in range(2):
        bench.keep(rows)
    stored = json.loads(bench.KEPT.read_text())
    assert (stored["commands"], len(stored["training"])) == (1, len(rows))
