"""Results in order, by threads where there is room for them."""

import resource
import threading

import pytest

from pefourier.geometry.threads import map_ahead


@pytest.mark.parametrize("limit", [resource.RLIM_INFINITY, 2**29])
def test_threads_are_left_out_where_the_address_space_is_limited(monkeypatch, limit):
    """A tree of 830000 rows once took minutes with 460 MB: each object was looked for in vain."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    found = list(map_ahead(lambda item: (item, threading.current_thread()), range(5)))
    assert [item for item, _ in found] == [0, 1, 2, 3, 4]
    alone = {thread for _, thread in found} == {threading.main_thread()}
    assert alone == (limit != resource.RLIM_INFINITY)
