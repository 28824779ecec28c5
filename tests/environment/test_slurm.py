"""The variables of srun, and lists of nodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.environment.slurm import expand, resolve
from penstock.errors import ConfigError, PenstockError


def test_tasks_are_consumers_on_the_hosts_of_their_blocks():
    env = {
        "SLURM_PROCID": "3",
        "SLURM_NTASKS": "5",
        "SLURM_LOCALID": "1",
        "SLURM_JOB_NODELIST": "gpu[01-02],big",
        "SLURM_TASKS_PER_NODE": "2(x2),1",
        "SLURM_ARRAY_TASK_ID": "12",
    }

    found = resolve(env)

    assert (found.role, found.consumer_index, found.num_consumers) == ("worker", 3, 5)
    assert (found.local_rank, found.trial) == (1, "12")
    assert found.addresses == {"chief": ["gpu01"], "worker": ["gpu01", "gpu02", "gpu02", "big"]}


def test_where_it_is_not_said_how_many_are_on_a_node_only_the_first_is_known():
    env = {"SLURM_PROCID": "0", "SLURM_NTASKS": "3", "SLURM_NODELIST": "a[1-2]"}

    assert resolve(env).addresses == {"chief": ["a1"], "worker": [None, None]}


def test_a_shell_in_an_allocation_is_no_task():
    assert resolve({"SLURM_JOB_NODELIST": "a", "SLURM_NTASKS": "2"}) is None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", ["a"]),
        ("a,b.c", ["a", "b.c"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-11,20]", ["n08", "n09", "n10", "n11", "n20"]),
        ("r[1-2]n[3,5]", ["r1n3", "r1n5", "r2n3", "r2n5"]),
        ("r[1-2]-x", ["r1-x", "r2-x"]),
    ],
)
def test_a_list_of_nodes_is_written_out(text, names):
    assert expand(text) == names


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no name at 0"),
        ("a[1-2", r"'\[' without '\]'"),
        ("a]", r"'\]' without '\['"),
        ("a[[1]]", "within brackets at 2"),
        ("a[3-1]", "no range of numbers at 2: '3-1'"),
        ("a[x]", "no range of numbers at 2: 'x'"),
        ("a[0-999999999]", "more than 131072 nodes"),
        ("a,,b", "has no name at 2"),
    ],
)
def test_a_list_that_is_malformed_is_quoted_with_the_place(text, said):
    with pytest.raises(ConfigError, match=said):
        expand(text)


@given(st.lists(st.integers(0, 9999), min_size=1, max_size=20), st.integers(1, 5))
def test_any_numbers_in_brackets_come_back_with_their_width(numbers, width):
    padded = [f"{number:0{width}}" for number in numbers]

    assert expand(f"node[{','.join(padded)}]") == [f"node{number}" for number in padded]


@st.composite
def _ranges(draw):
    """Brackets, and the numbers within them as they are written out."""
    written, names = [], []
    for _ in range(draw(st.integers(1, 4))):
        first = draw(st.integers(0, 200))
        last, width = first + draw(st.integers(0, 12)), draw(st.integers(1, 4))
        begin = f"{first:0{width}}"
        written.append(begin if first == last else f"{begin}-{last:0{width}}")
        names += [f"{number:0{len(begin)}}" for number in range(first, last + 1)]
    return f"[{','.join(written)}]", names


@given(
    st.lists(st.tuples(st.sampled_from(["n", "gpu-", "r.x"]), _ranges()), min_size=1, max_size=4)
)
def test_lists_of_ranges_are_written_out_in_their_order(parts):
    text = ",".join(f"{head}{brackets}" for head, (brackets, _) in parts)

    assert expand(text) == [f"{head}{number}" for head, (_, all_) in parts for number in all_]


@given(_ranges(), _ranges())
def test_of_two_brackets_the_last_changes_first(outer, inner):
    names = expand(f"rack{outer[0]}n{inner[0]}")

    assert names == [f"rack{a}n{b}" for a in outer[1] for b in inner[1]]


@given(st.text("a1[],-", max_size=12))
def test_any_text_is_a_list_or_a_clear_error(text):
    try:
        names = expand(text, "SLURM_JOB_NODELIST")
    except PenstockError as exc:
        assert "SLURM_JOB_NODELIST" in str(exc)
    else:
        assert names
        assert all("[" not in name and "," not in name for name in names)


@given(st.dictionaries(st.sampled_from(["SLURM_PROCID", "SLURM_NTASKS"]), st.text(max_size=4)))
def test_any_values_are_a_place_or_a_clear_error(env):
    try:
        found = resolve(env)
    except ConfigError as exc:
        assert "SLURM_" in str(exc)
    else:
        assert found is None or found.consumer_index < found.num_consumers
