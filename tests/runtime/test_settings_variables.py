"""Variables that nothing reads are named, with the one that is most like them."""

from penstock.runtime.settings import KNOWN, misspelt


def test_a_misspelt_variable_is_named_with_the_nearest_one():
    (said,) = misspelt({"PENSTOCK_WORKR_TIMEOUT": "5", "HOME": "/", "PENSTOCK_PORT": "7000"})

    assert said.startswith("PENSTOCK_WORKR_TIMEOUT is set, but Penstock does not read it")
    assert said.endswith("did you mean PENSTOCK_WORKER_TIMEOUT?")


def test_a_variable_that_is_like_no_other_has_no_effect():
    (said,) = misspelt({"PENSTOCK_ZZZZZZZZ": "1"})

    assert said.endswith("it has no effect")


def test_all_that_is_read_passes():
    assert not list(misspelt({f"PENSTOCK_{name.upper()}": "1" for name in KNOWN}))


def test_what_kubernetes_tells_of_services_passes():
    links = {
        "PENSTOCK_DISPATCHER_SERVICE_HOST": "10.0.0.1",
        "PENSTOCK_DISPATCHER_SERVICE_PORT_GRPC": "7000",
        "PENSTOCK_DISPATCHER_PORT": "tcp://10.0.0.1:7000",
        "PENSTOCK_DISPATCHER_PORT_7000_TCP_ADDR": "10.0.0.1",
    }

    assert not list(misspelt(links))
