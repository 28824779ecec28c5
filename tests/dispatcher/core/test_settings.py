import pytest

from penstock_dispatcher.core.settings import is_exact, is_host_of


@pytest.mark.parametrize("entry", ["h:1", "[::1]:7", "10.0.0.1:80"])
def test_an_entry_with_a_port_is_one_worker(entry):
    assert is_exact(entry)
    assert not is_host_of(entry, entry)


@pytest.mark.parametrize("entry", ["h", "h:*", "h:%port%", "h:%port_worker%"])
def test_an_entry_without_is_any_port_of_its_host(entry):
    assert not is_exact(entry)
    assert is_host_of(entry, "h:7")
    assert not is_host_of(entry, "g:7")


def test_colons_of_a_host_in_brackets_are_no_port():
    assert is_host_of("[::1]", "[::1]:7")
    assert is_host_of("[::1]:*", "[::1]:7")
