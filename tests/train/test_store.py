"""Results on disk are whole or absent, and never mixed or torn."""

import json
import shutil

import pytest
from refusals import refusal
from training import line, lines, small

from pefourier.train import store
from pefourier.train.options import Options
from pefourier.train.run import run_comparison
from pefourier.train.store import Store

SCORES = dict.fromkeys(store.MEASURES, 0.5)


def test_a_full_disk_is_stated_and_what_is_finished_stays(tmp_path):
    nothing = dict.fromkeys(SCORES)
    tested = [{"length": 9, **SCORES, "reason": ""}, {"length": 9, **nothing, "reason": "few"}]
    results, row = Store(tmp_path), line(tested=tested)
    results.append([row])
    assert results.rows() == [row]
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "results.jsonl").symlink_to("/dev/full")
    with refusal("No space left on device"):
        Store(tmp_path / "full").append([line(seed=1)])


def test_a_line_that_a_crash_cut_is_dropped(tmp_path):
    row, file = line(), tmp_path / "results.jsonl"
    whole = json.dumps(row).encode() + b"\n"
    for before in (b"", whole):
        for torn in (b"", whole[:9], whole[:-1], b"\xff", b"\0" * 9):
            file.write_bytes(before + torn)
            assert store.read_rows(file) == ([row] if before else [])


def test_a_run_that_stands_twice_with_different_scores_is_refused(tmp_path):
    Store(tmp_path).append([line(), line(time="later")])
    assert len(Store(tmp_path).rows()) == 1
    Store(tmp_path).append([line(auprc=0.25)])
    with refusal("a run twice"):
        Store(tmp_path).rows()


FOREIGN = [
    (b'{"seed": 1}', "accuracy"),
    (b"\xff", "utf-8"),
    (b"[]", "object"),
    (b"[" * 10**5, "nested"),
    (b" " * 2**24 + b"{}", "longer than"),
    *(({"f1": wrong}, "f1 must be") for wrong in (7.5, float("nan"), 10**400, "0.5")),
    *(({"seed": wrong}, "seed") for wrong in (True, 10**4, -1)),
    *(({name: -1}, name) for name in ("fold", "step", "seconds")),
    *(({name: 0}, name) for name in ("length", "windows", "trained", "leaky")),
    *(({name: [1]}, name) for name in ("dataset", "note", "budget")),
    ({"budget": {"steps": "9"}}, "budget"),
    *(
        ({"confusion": wrong}, "confusion")
        for wrong in ([], [12], [[12, 0], [1]], [[12, 0], [1, 0]], [[13, -1], [0, 0]])
    ),
    *(
        ({"tested": [{"length": 9, "reason": "", **SCORES, **wrong}]}, "f1|length")
        for wrong in ({"f1": 2}, {"f1": None}, {"length": 0})
    ),
]


@pytest.mark.parametrize(("foreign", "named"), FOREIGN)
def test_a_whole_line_that_is_not_ours_is_refused(tmp_path, foreign, named):
    file = tmp_path / "results.jsonl"
    second = foreign if isinstance(foreign, bytes) else json.dumps(line(**foreign)).encode()
    file.write_bytes(json.dumps(line()).encode() + b"\n" + second + b"\n")
    with refusal(f"^{file}, line 2, was not .*({named})") as caught:
        store.read_rows(file)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "edit",
    [
        *({"channels_first": 1}, {"encoding": [3]}, {"windows": {"order": 3}}, {"stack": None}),
        *('{"model_type": "llama"}', "[1]", "no JSON"),
    ],
)
@pytest.mark.parametrize("resume", [False, True])
def test_another_configuration_is_refused_and_never_replaced(tmp_path, trained, edit, resume):
    file, config = tmp_path / "config.json", json.loads((trained / "config.json").read_text())
    file.write_text(edit if isinstance(edit, str) else json.dumps({**config, **edit}))
    before = file.read_bytes()
    with refusal("choose another --out") as caught:
        run_comparison(small(out=str(tmp_path), resume=resume))
    assert ("was not written by pefourier train" in str(caught.value)) == resume
    assert file.read_bytes() == before


def test_options_of_an_earlier_version_are_accepted_if_they_changed_nothing(
    tmp_path, written, trained
):
    config = json.loads((trained / "config.json").read_text())
    for edit, named in (({"epochs": 20}, "epochs 20"), ({"pool": "max"}, "pool 'max'"), ({}, "")):
        kept = {"weight_decay": 0.0, "pool": "mean", "compile": "auto", "warmup": 0, "search": []}
        written({**config, **kept, **edit})
        (tmp_path / "results.jsonl").write_bytes((trained / "results.jsonl").read_bytes())
        options = Options(out=str(tmp_path), resume=True)
        if not edit:
            assert run_comparison(options)
            continue
        with refusal(f"config.json has {named}, of another version"):
            run_comparison(options)


def test_options_of_a_configuration_are_checked_like_those_that_are_typed(
    tmp_path, written, trained
):
    config = json.loads((trained / "config.json").read_text())
    written({**config, "find": -1})
    with refusal(r"^--find"):
        run_comparison(Options(out=str(tmp_path), resume=True))


@pytest.mark.parametrize(
    "edit",
    [
        *({"fold": 5}, {"length": 7}, {"leaky": True}, {"positive": None}, {"dataset": "other"}),
        *({"windows": 17, "confusion": [[17, 0], [0, 0]]}, {"confusion": [[16]]}, {"trained": 9}),
    ],
)
def test_runs_that_the_data_cannot_have_had_are_refused(tmp_path, trained, edit):
    shutil.copy(trained / "config.json", tmp_path)
    first, *rest = lines(trained)
    edited = "".join(json.dumps(row) + "\n" for row in ({**first, **edit}, *rest))
    (tmp_path / "results.jsonl").write_text(edited)
    with refusal("the data do not match the stored run"):
        run_comparison(Options(out=str(tmp_path), resume=True))
    assert (tmp_path / "results.jsonl").read_text() == edited


def test_a_folder_is_locked_and_free_again(tmp_path):
    for _ in range(2):
        with Store(tmp_path).lock():
            for resume in (False, True):
                with refusal(r"^another run writes to"):
                    run_comparison(small(out=str(tmp_path), resume=resume))
        assert not (tmp_path / "config.json").exists()


def test_folders_that_cannot_be_written_to_are_refused(tmp_path, monkeypatch):
    def unknown(*_):
        raise OSError(38, "Function not implemented")

    (tmp_path / "file").write_text("")
    new, made = tmp_path / "new", {"encoding": ("none",), "seeds": 1}
    for out, own, named in (
        (tmp_path / "file" / "out", {}, "Not a directory"),
        (new / "one", {"device": "gpu"}, "--device"),
    ):
        with refusal(named):
            run_comparison(small(out=str(out), **own))
    assert not new.exists()
    monkeypatch.setattr("fcntl.flock", unknown)  # a file system without locks is accepted
    run_comparison(small(**made, out=str(new)))
    assert len(lines(new)) == 1
    (new / "config.json").unlink()
    for resume in (False, True):
        with refusal("holds results already"):
            run_comparison(small(out=str(new), resume=resume))
