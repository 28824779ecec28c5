"""Which jobs the option `--job` means."""

import pytest

from penstock.errors import ConfigError
from penstock_cluster.cli.look import names_meant


def test_a_name_means_the_job_that_has_it_before_others_that_contain_it():
    names = ["train", "train-large", "eval"]

    assert names_meant(names, "train") == {"train"}
    assert names_meant(names, "large") == {"train-large"}
    assert names_meant(names, "a") == set(names)
    with pytest.raises(ConfigError, match="'nil' in its name; jobs are: eval, train, train-large"):
        names_meant(names, "nil")
