"""Results on disk: whole or absent, kept apart, never torn."""

import json
import os
from pathlib import Path

import pytest
from training import SMALL, lines

from pefourier.errors import PefourierError
from pefourier.train import store
from pefourier.train.options import Options
from pefourier.train.run import run_comparison
from pefourier.train.store import Store


def test_a_full_disk_is_said_and_what_is_finished_stays(tmp_path, monkeypatch):
    results = Store(tmp_path)
    row = dict.fromkeys((*store.KEY, *store.NEEDED), 0)
    results.append([row])
    monkeypatch.setattr(os, "write", lambda handle, line: len(line) // 2)
    with pytest.raises(PefourierError, match="No space left on device; nothing finished is lost"):
        results.append([{**row, "seed": 1}])
    assert results.rows() == [row]


def test_torn_and_foreign_lines_are_dropped(tmp_path):
    row = dict.fromkeys((*store.KEY, *store.NEEDED), 0)
    line = json.dumps(row).encode() + b"\n"
    file = tmp_path / "results.jsonl"
    key = json.dumps(dict.fromkeys(store.KEY, 0)).encode() + b"\n"
    for torn in (b"", key, line[:9], b'{"seed": 1}\n', b"\xff\n", b"[]\n"):
        file.write_bytes(line + torn)
        assert store.read_rows(file) == [row]
        Store(tmp_path).drop_torn_line()
        assert file.read_bytes() == line


@pytest.mark.parametrize("text", ['{"model_type": "llama"}', "[1]", "no JSON"])
@pytest.mark.parametrize("resume", [False, True])
def test_another_config_json_is_never_replaced(tmp_path, text, resume):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(PefourierError, match="choose another --out"):
        run_comparison(Options(**SMALL, out=str(tmp_path), resume=resume))
    assert (tmp_path / "config.json").read_text() == text


def test_a_second_run_in_the_same_folder_is_refused_while_the_first_lasts(tmp_path):
    out = str(tmp_path / "out")
    with Store(tmp_path / "out").lock():
        with pytest.raises(PefourierError, match=r"^another run writes to .*; wait"):
            run_comparison(Options(**SMALL, out=out))
        Path(out).rmdir()  # nothing was written
        Path(out).mkdir()
    run_comparison(Options(**SMALL, out=out))


def test_a_file_system_without_locks_is_written_to(tmp_path, monkeypatch):
    def unknown(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", unknown)
    run_comparison(Options(**SMALL, out=str(tmp_path)))
    assert lines(tmp_path)


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PefourierError, match=r"file/out: Not a directory; choose another --out"):
        run_comparison(Options(**SMALL, out=str(tmp_path / "file" / "out")))


def test_results_without_a_configuration_are_not_gone_on_with(tmp_path):
    (tmp_path / "results.jsonl").write_text("")
    with pytest.raises(PefourierError, match=r"holds results, but no config\.json"):
        run_comparison(Options(**SMALL, out=str(tmp_path), resume=True))
