"""Files are written whole or not at all, and where nothing can be written that is said first."""

import os
import re

import numpy as np
import pytest
from stored import TABLE, put

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
        "a/x.npy": f"there is no folder '{os.getcwd()}/a'; make it first",
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
