import sys
from importlib import metadata

from penstock.protocol.types import PROTOCOL
from penstock.runtime.versions import versions


def test_a_process_says_which_protocol_python_and_penstock_it_speaks():
    said = versions()

    assert (said.protocol, said.penstock) == (PROTOCOL, metadata.version("penstock"))
    assert said.minor == f"{sys.version_info.major}.{sys.version_info.minor}"
