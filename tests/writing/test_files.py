"""Files are written whole or not at all, and unwritable places are reported first."""

import os
from pathlib import Path

import numpy as np
import pytest
from refusals import refusal
from stored import TABLE, put

from pefourier.encodings.encoding import FINDINGS
from pefourier.encodings.sources.tables import read_table, write_table
from pefourier.errors import PefourierError
from pefourier.writing import files
from pefourier.writing.files import (
    check_suffix,
    read_section,
    read_toml,
    split_spec,
    write_whole,
)

pytestmark = pytest.mark.usefixtures("folder")


def test_where_nothing_can_be_written(monkeypatch):
    Path("folder.npy").mkdir()
    put("x.npy", b"")
    places = {"folder.npy": "it is a folder", "a/x.npy": f"'{Path.cwd()}/a' first"}
    for path, words in places.items():
        with refusal(f"{path}.*{words}"):
            check_suffix(path, [".npy"])
    with refusal(r"Did you mean '\.npy'\? 'x\.npz' may end in"):
        check_suffix("x.npz", [".npy", ".csv"])
    assert check_suffix("X.NPY", [".npy"]) == ".npy"
    for protected in (str(Path.cwd()), "x.npy"):
        monkeypatch.setattr(os, "access", lambda path, _, protected=protected: path != protected)
        with refusal(f"{protected}' is write-protected"):
            write_table("x.npy", TABLE)


def test_the_longest_path_that_exists_is_the_file():
    for name in ("a", "a#b"):
        put(name, b"")
    assert split_spec("a#b#c") == ("a#b", "c")
    assert split_spec("a#c#b") == ("a", "c#b")


@pytest.mark.parametrize("failure", [KeyboardInterrupt, ValueError, PefourierError])
def test_a_failure_leaves_the_old_file_whole(failure):
    put("x.npy", b"old")

    def write(stream):
        stream.write(b"new")
        raise failure

    with pytest.raises(failure):
        write_whole("x.npy", write)
    assert (Path("x.npy").read_bytes(), [*Path().iterdir()]) == (b"old", [Path("x.npy")])


def test_mode_and_links_of_the_written_file():
    before = os.umask(0o027)
    try:
        write_table("new.npy", TABLE)
    finally:
        os.umask(before)
    assert Path("new.npy").stat().st_mode & 0o777 == 0o640
    Path("new.npy").chmod(0o604)
    Path("link.npy").symlink_to("new.npy")
    write_table("link.npy", TABLE + 1)
    assert Path("link.npy").is_symlink()
    assert Path("new.npy").stat().st_mode & 0o777 == 0o604
    np.testing.assert_array_equal(read_table("new.npy")[0], TABLE + 1)


def test_an_open_stream_is_written_in_place():
    """`--out /dev/stdout > file` writes into the stream and does not replace its file."""
    with Path("out").open("w+b") as stream:
        write_whole(f"/proc/self/fd/{stream.fileno()}", lambda out: out.write(b"codes"))
        assert stream.read() == b"codes"


def test_what_is_being_written_goes_when_the_process_ends():
    def write(_):
        assert len(files.DRAFTS) == 1
        files.remove_drafts()
        assert [*Path().iterdir()] == []

    with refusal(r"^cannot write 'x.npy': No such file or directory$"):
        write_whole("x.npy", write)
    assert files.DRAFTS == set()


def test_what_is_near_a_missing_file_is_suggested_but_a_picture_for_no_table(run):
    for there in ("codes.png", "codes.html", "codes.PDF", "llama31.json"):
        put(there, b"{}")
    assert "Did you mean" not in run("check-faithful codes.npy").err
    put("codes.npz", b"")
    for typed, near in (("codes.npy", "codes.npz"), ("llama31.jsn", "llama31.json")):
        assert f"Did you mean '{near}'?" in run("check-faithful", typed).err


def test_a_section_is_that_of_the_whole_file():
    sections = read_toml(FINDINGS)
    assert {name: read_section(FINDINGS, name) for name in sections} == sections
