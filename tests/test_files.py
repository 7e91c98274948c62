"""Files are written whole or not at all, and where nothing can be written that is said first."""

import errno
import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from stored import TABLE, put

from pefourier import files
from pefourier.encodings.sources.tables import read_table, write_table
from pefourier.errors import PefourierError
from pefourier.files import check_suffix, write_whole


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_where_nothing_can_be_written(monkeypatch):
    os.mkdir("folder.npy")
    put("x.npy", b"")
    for path, reason in {
        "folder.npy": "it is a folder; name a file in it",
        "a/x.npy": f"make the folder '{os.getcwd()}/a' first",
    }.items():
        with pytest.raises(
            PefourierError, match=f"^{re.escape(f'cannot write {path!r}: {reason}')}$"
        ):
            check_suffix(path, [".npy"])
    message = "unknown suffix '.npz'. Did you mean '.npy'? 'x.npz' may end in .npy, .csv."
    with pytest.raises(PefourierError, match=f"^{re.escape(message)}$"):
        check_suffix("x.npz", [".npy", ".csv"])
    assert check_suffix("X.NPY", [".npy"]) == ".npy"
    for protected in (os.getcwd(), "x.npy"):
        monkeypatch.setattr(os, "access", lambda path, _, protected=protected: path != protected)
        message = f"cannot write 'x.npy': {protected!r} is write-protected; name another"
        with pytest.raises(PefourierError, match=f"^{re.escape(message)}$"):
            write_table("x.npy", TABLE)


@pytest.mark.parametrize("failure", [KeyboardInterrupt, ValueError, PefourierError])
def test_a_failure_leaves_the_old_file_whole(failure):
    put("x.npy", b"old")

    def write(stream):
        stream.write(b"new")
        raise failure

    with pytest.raises(failure):
        write_whole("x.npy", write)
    with open("x.npy", "rb") as stream:
        assert stream.read() == b"old"
    assert os.listdir() == ["x.npy"]


def test_mode_and_links_of_the_written_file():
    before = os.umask(0o027)
    try:
        write_table("new.npy", TABLE)
    finally:
        os.umask(before)
    assert os.stat("new.npy").st_mode & 0o777 == 0o640
    os.chmod("new.npy", 0o604)
    os.symlink("new.npy", "link.npy")
    write_table("link.npy", TABLE + 1)
    assert os.path.islink("link.npy")
    assert os.stat("new.npy").st_mode & 0o777 == 0o604
    np.testing.assert_array_equal(read_table("new.npy")[0], TABLE + 1)


def test_an_open_stream_is_written_in_place():
    """`--out /dev/stdout > file` must not put another file in the place of the stream."""
    with open("out", "w+b") as stream:
        write_whole(f"/proc/self/fd/{stream.fileno()}", lambda out: out.write(b"codes"))
        assert stream.read() == b"codes"


DRAFT = ".pefourier-" + 16 * "a"
needs_locks = pytest.mark.skipif(files.fcntl is None, reason="no locks here")


def write_new(stream):
    stream.write(b"new")


@needs_locks
def test_a_draft_that_nobody_holds_is_removed_and_nothing_else():
    others = [".pefourier-notes", ".pefourier-" + 16 * "g", DRAFT + "b", "x" + DRAFT]
    for name in (DRAFT, *others):
        put(name, b"")
    os.mkdir(DRAFT.replace("a", "b"))
    os.symlink("x", DRAFT.replace("a", "c"))
    write_whole("x.npy", write_new)
    assert DRAFT not in os.listdir()
    assert sorted(os.listdir()) == sorted(
        [*others, "x.npy", DRAFT.replace("a", "b"), DRAFT.replace("a", "c")]
    )


HOLDER = """
import os, sys, time
from pefourier.files import write_whole

def write(stream):
    stream.write(b"held")
    stream.flush()
    print("writing", flush=True)
    time.sleep(float(sys.argv[1]))

write_whole("held.npy", write)
"""


@needs_locks
def test_a_draft_that_is_being_written_stays_until_its_writer_is_killed():
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, "60"], stdout=subprocess.PIPE)
    with holder:
        holder.stdout.readline()
        (held,) = os.listdir()
        write_whole("x.npy", write_new)
        assert sorted(os.listdir()) == [held, "x.npy"]
        holder.send_signal(signal.SIGKILL)
    write_whole("x.npy", write_new)
    assert os.listdir() == ["x.npy"]


def test_where_there_are_no_locks_a_draft_of_yesterday_is_stale(monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    if files.fcntl is not None:
        monkeypatch.setattr(files.fcntl, "flock", refuse)
    for name, age in ((DRAFT, 90_000), (DRAFT.replace("a", "b"), 80_000)):
        put(name, b"")
        then = os.stat(name).st_mtime - age
        os.utime(name, (then, then))
    write_whole("x.npy", write_new)
    assert sorted(os.listdir()) == [DRAFT.replace("a", "b"), "x.npy"]


@needs_locks
@pytest.mark.parametrize("moment", ["before the lock", "while it is locked"])
def test_a_draft_that_another_process_takes_for_stale_is_made_anew(monkeypatch, moment):
    """Between a draft's making and its lock another process may lock and remove it."""
    lock, taken = files.can_lock, []

    def late(handle):
        if not taken:
            (draft,) = os.listdir()
            taken.append(draft)
            os.unlink(draft)
            return lock(handle) if moment == "before the lock" else False
        return lock(handle)

    monkeypatch.setattr(files, "can_lock", late)
    write_whole("x.npy", write_new)
    assert len(taken) == 1
    assert os.listdir() == ["x.npy"]
    assert files.DRAFTS == set()
    with open("x.npy", "rb") as stream:
        assert stream.read() == b"new"


def test_what_is_being_written_goes_when_the_process_ends():
    def write(stream):
        assert len(files.DRAFTS) == 1
        files.remove_drafts()
        assert os.listdir() == []

    with pytest.raises(PefourierError, match=r"^cannot write 'x.npy': No such file or directory$"):
        write_whole("x.npy", write)


@pytest.mark.parametrize("there", ["codes.png", "codes.svg", "codes.html", "codes.PDF"])
def test_a_picture_is_never_suggested_for_a_table(there, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / there).touch()
    assert "Did you mean" not in run("check-faithful", "codes.npy").err
    (tmp_path / "codes.npz").touch()
    assert "Did you mean 'codes.npz'?" in run("check-faithful", "codes.npy").err


def test_a_config_with_a_misspelt_suffix_or_key_is_guessed(run, tmp_path):
    path = tmp_path / "llama31.json"
    own = {"rope_type": "linear", "factr": 8.0}
    path.write_text(json.dumps({"model_type": "llama", "head_dim": 64, "rope_scaling": own}))
    near = run("context", tmp_path / "llama31.jsn").err
    assert f"Did you mean {str(path)!r}?" in near
    assert "has no factor; rope_type linear needs it; is 'factr'" in run("context", path).err
