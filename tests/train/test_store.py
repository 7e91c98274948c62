"""Results on disk: whole or absent, kept apart, never torn."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
import tampering
from training import SMALL, line, lines

from pefourier.errors import PefourierError
from pefourier.train import store
from pefourier.train.options import Options
from pefourier.train.run import run_comparison
from pefourier.train.store import Store, check_handed_over, key_of


def test_a_full_disk_is_said_and_what_is_finished_stays(tmp_path, monkeypatch):
    results = Store(tmp_path)
    row = line()
    results.append([row])
    monkeypatch.setattr(os, "write", lambda handle, line: len(line) // 2)
    with pytest.raises(PefourierError, match="No space left on device; nothing finished is lost"):
        results.append([line(seed=1)])
    assert results.rows() == [row]


def test_a_line_that_a_crash_cut_is_dropped(tmp_path):
    row, file = line(), tmp_path / "results.jsonl"
    whole = json.dumps(row).encode() + b"\n"
    for torn in (b"", whole[:9], whole[:-1], b"\xff", b"\0" * 9):
        file.write_bytes(whole + torn)
        assert store.read_rows(file) == [row]
        Store(tmp_path).drop_torn_line()
        assert file.read_bytes() == whole


@pytest.mark.parametrize(
    ("foreign", "said"),
    [
        (b'{"seed": 1}', "a line lacks 'dataset'"),
        (b"\xff", "'utf-8' codec can't decode byte 0xff"),
        (b"[]", "a line must be an object; got []"),
        (b"[" * 10**5, "it is nested too deeply"),
        (b'{"f1": 0, "f1": 1}', "it has a key twice"),
        ({"note": "mine"}, "a line has an unknown key 'note'"),
        ({"f1": 7.5}, "f1 must be from 0 to 1; got 7.5"),
        ({"f1": float("nan")}, "f1 must be a finite number; got nan"),
        ({"f1": 10**400}, "f1 must be a finite number; got 1"),
        ({"f1": "0.5"}, "f1 must be a finite number; got '0.5'"),
        ({"leaky": 0}, "leaky must be true or false; got 0"),
        ({"seed": True}, "seed must be a whole number; got True"),
        ({"seed": 10**4}, "seed, fold and step must be 0 or more"),
        ({"fold": -1}, "seed, fold and step must be 0 or more"),
        ({"dataset": ["one"]}, "dataset must be text; got ['one']"),
        ({"budget": {"steps": "9"}}, "budget must be a whole number; got '9'"),
        ({"chosen": [1]}, "chosen must be a dict; got [1]"),
        ({"confusion": [[12, 0], [1]]}, "confusion must be a square table of whole numbers"),
        ({"confusion": [[12, 0], [1, 0]]}, "confusion must be a square table of 12 windows"),
    ],
)
def test_a_whole_line_that_is_not_ours_is_refused(tmp_path, foreign, said):
    file = tmp_path / "results.jsonl"
    second = foreign if isinstance(foreign, bytes) else json.dumps(line(**foreign)).encode()
    file.write_bytes(json.dumps(line()).encode() + b"\n" + second + b"\n")
    with pytest.raises(PefourierError) as caught:
        store.read_rows(file)
    start = f"{file}, line 2, was not written by pefourier train: {said}"
    assert str(caught.value).startswith(start)
    assert "delete the line to have its run trained again" in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with the results of a small request."""
    folder = tmp_path_factory.mktemp("finished")
    run_comparison(Options(**SMALL, out=str(folder)))
    return folder


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"seeds": "2"}, "seeds must be a whole number; got '2'"),
        ({"learn": 1}, "learn must be true or false; got 1"),
        ({"encoding": "none"}, "it must be an object with lists of texts as dataset and encoding"),
        ({"dataset": []}, "it must be an object with lists of texts as dataset and encoding"),
        ({"search": "rate=1,2"}, "search must be a list of texts; got 'rate=1,2'"),
    ],
)
def test_a_configuration_that_was_edited_is_refused(tmp_path, finished, edit, said):
    config = json.loads((finished / "config.json").read_text())
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**config, **edit}))
    with pytest.raises(PefourierError, match=re.escape(f"train: {said}; choose")):
        store.read_configuration(file)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"fold": 5}, "fold 5) where the data have 1 folds"),
        ({"length": 7}, "whose length is 7 where the data have 6"),
        ({"leaky": True}, "whose leaky is True where the data have False"),
        (
            {"windows": 13, "confusion": [[13, 0], [0, 0]]},
            "whose windows is 13 where the data have 12",
        ),
        ({"dataset": "other"}, "on which nothing was asked"),
    ],
)
def test_runs_that_were_not_asked_for_are_refused(tmp_path, finished, edit, said):
    shutil.copytree(finished, tmp_path / "out")
    first, *rest = lines(finished)
    edited = "".join(json.dumps(row) + "\n" for row in ({**first, **edit}, *rest))
    (tmp_path / "out" / "results.jsonl").write_text(edited)
    with pytest.raises(PefourierError, match=re.escape(said)):
        run_comparison(Options(**SMALL, out=str(tmp_path / "out"), resume=True))
    assert (tmp_path / "out" / "results.jsonl").read_text() == edited


def test_a_run_that_stands_twice_with_different_scores_is_refused(tmp_path):
    both = (line(), line(time="later"))
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in both))
    assert len(Store(tmp_path).rows()) == 1
    (tmp_path / "results.rank1.jsonl").write_text(json.dumps(line(auprc=0.25)) + "\n")
    with pytest.raises(PefourierError, match=r"rank1.jsonl has a run twice, with different scores"):
        Store(tmp_path).rows()


@pytest.mark.parametrize(
    "seeds", [range(15), pytest.param(range(15, 60), marks=pytest.mark.long)], ids=str
)
def test_a_tampered_folder_gives_its_answer_or_one_line(tmp_path, seeds):
    assert tampering.asked(tmp_path / "whole")[0] == 0
    wrong = [tampering.fault(tmp_path / "whole", seed) for seed in seeds]
    assert [line for line in wrong if line] == []


def test_committed_results_are_rows_of_their_configurations():
    found = sorted((Path(__file__).parents[2] / "figures").rglob("config.json"))
    assert found
    for folder in (path.parent for path in found):
        rows = store.read_rows(folder / "results.jsonl")
        config = store.read_configuration(folder / "config.json")
        assert {row["encoding"] for row in rows} == set(config["encoding"])


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


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: [{**rows[0], "f1": 2}],
        lambda rows: [{**rows[0], "seed": 7}],
        lambda rows: rows * 2,
        lambda rows: ["x"],
    ],
)
def test_rows_of_other_processes_are_those_that_they_were_given(change):
    """Once whoever found the port wrote what he liked into results."""
    rows = [line()]
    check_handed_over(rows, [key_of(rows[0])])
    with pytest.raises(PefourierError, match="handed over no run that it was given"):
        check_handed_over(change(rows), [key_of(rows[0])])


def test_a_rank_that_comes_first_leaves_the_configuration_to_rank_0(tmp_path):
    """Once rank 0 then took the folder for one of an earlier run."""
    config = {"dataset": ["order"], "encoding": ["dft"], "stack": 4}
    for rank in (1, 0):
        assert Store(tmp_path, rank).begin(config, resume=False) == config
    assert (tmp_path / "config.json").is_file()


@pytest.mark.parametrize(
    "broken",
    [{"search": [["rate=1"]]}, {"beside": [3]}, {"windows": {"order": 3}}, {"versions": 5}],
)
def test_a_configuration_of_other_types_is_refused(tmp_path, broken):
    config = {"dataset": ["order"], "encoding": ["dft"], **broken}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(PefourierError, match="was not written by pefourier train"):
        store.read_configuration(tmp_path / "config.json")
