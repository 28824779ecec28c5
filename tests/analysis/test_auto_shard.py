"""What each task runs for its part of a pipeline, and which pipelines have no parts."""

import functools

import pytest

from penstock import files
from penstock.analysis.auto_shard import Part, check, divided_operators, sharded
from penstock.dataset.dataset import Dataset
from penstock.engine.context import Context
from penstock.errors import DatasetError
from penstock.graph.run import open_root
from penstock.options import Options
from penstock.protocol.types import SHARD_HINT, Mode

STATIC = [mode for mode in Mode if mode.is_static]


@pytest.fixture
def folder(tmp_path):
    """Five files of three lines: 0:0 and so on."""
    for i in range(5):
        (tmp_path / f"{i}.txt").write_text("\n".join(f"{i}:{j}" for j in range(3)))
    return tmp_path


@pytest.fixture
def listed(folder):
    def build(**options):
        return Dataset.list_files(str(folder / "*.txt"), **options)

    return build


@pytest.fixture
def names(folder):
    return sorted(map(str, folder.glob("*.txt")))


def run(dataset, mode, shards, seed=7):
    """Return the elements of each part."""
    out = []
    for index in range(shards):
        node = sharded(dataset.node, mode, Part(shards, index), files.count)
        engine = open_root(node, Context.local(seed, index))
        found = []
        while block := engine.block(100):
            found += block
        engine.close()
        out.append(
            [x if isinstance(x, tuple) else getattr(x, "item", lambda x=x: x)() for x in found]
        )
    return out


def flat(parts):
    return [x for part in parts for x in part]


LINES = [f"{i}:{j}" for i in range(5) for j in range(3)]


def lines_of(*numbers):
    return [f"{i}:{j}" for i in numbers for j in range(3)]


def lines_in(names):
    return Dataset.text_lines(names)


def mixed_by_number(names):
    sources = {"even": lines_in(names[::2]), "odd": lines_in(names[1::2])}
    return Dataset.mixture(sources, {"even": 2, "odd": 1}, seed=1, stop="drop")


# --- by file ---


def test_a_source_of_files_reads_each_nth(names):
    assert run(Dataset.text_lines(names), Mode.FILE, 2) == [lines_of(0, 2, 4), lines_of(1, 3)]


def test_files_that_flat_map_reads_are_divided_before_it(listed):
    lines = listed(shuffle=False).flat_map(lambda name: Dataset.text_lines(name))

    assert run(lines, Mode.FILE, 2) == [lines_of(0, 2, 4), lines_of(1, 3)]


@pytest.mark.parametrize(
    "read",
    [
        Dataset.text_lines,
        lambda name: Dataset.text_lines(name),
        functools.partial(Dataset.text_lines, errors="replace"),
    ],
    ids=["method", "lambda", "partial"],
)
def test_names_from_anywhere_are_divided_before_a_function_that_is_seen_to_read(names, read):
    lines = Dataset.from_tensor_slices(names).interleave(read, cycle_length=1)

    assert run(lines, Mode.FILE, 2) == [lines_of(0, 2, 4), lines_of(1, 3)]


@pytest.mark.parametrize("seed", [None, 3])
def test_all_tasks_agree_on_shuffled_files(listed, seed):
    lines = listed(shuffle=True, seed=seed).shuffle(5).interleave(Dataset.text_lines)

    parts = run(lines, Mode.FILE, 3)

    assert sorted(flat(parts)) == LINES
    assert [len(part) for part in parts] == [6, 6, 3]


def test_what_chooses_files_does_so_before_they_are_divided(listed):
    four = listed(shuffle=False).filter(lambda name: "3" not in name[-6:]).take(3)
    lines = four.map(str).interleave(Dataset.text_lines, cycle_length=1)

    assert run(lines, Mode.FILE, 2) == [lines_of(0, 2), lines_of(1)]


def test_names_that_nothing_opens_are_divided_at_the_list(listed):
    read = listed(shuffle=False).take(4).map(lambda name: name[-5:]).batch(9)

    parts = run(read.unbatch(), Mode.FILE, 2)

    assert parts == [["0.txt", "2.txt"], ["1.txt", "3.txt"]]


def test_repeated_files_are_each_read_once_a_pass(listed):
    lines = listed(shuffle=False).repeat(2).flat_map(Dataset.text_lines)

    assert sorted(flat(run(lines, Mode.FILE, 3))) == sorted(LINES * 2)


def test_a_repeat_behind_the_reader_repeats_each_part(names):
    parts = run(Dataset.text_lines(names).repeat(2), Mode.FILE, 2)

    assert parts == [lines_of(0, 2, 4) * 2, lines_of(1, 3) * 2]


def test_every_branch_of_concatenate_and_zip_is_divided(names):
    first, second = Dataset.text_lines(names[:2]), Dataset.text_lines(names[2:4])

    joined = run(first.concatenate(second), Mode.FILE, 2)
    paired = run(Dataset.zip((first, second)), Mode.FILE, 2)

    assert joined == [lines_of(0, 2), lines_of(1, 3)]
    assert [[tuple(map(str, pair)) for pair in part] for part in paired] == [
        list(zip(lines_of(0), lines_of(2), strict=True)),
        list(zip(lines_of(1), lines_of(3), strict=True)),
    ]


def test_joined_lists_of_files_are_one_list(names):
    lists = [Dataset.list_files(name) for name in names[:2]]
    lines = lists[0].concatenate(lists[1]).interleave(Dataset.text_lines)

    assert run(lines, Mode.FILE, 2) == [lines_of(0), lines_of(1)]


def test_an_asserted_number_of_elements_is_not_that_of_a_part(names):
    assert flat(run(Dataset.text_lines(names).assert_cardinality(15), Mode.FILE, 2))


def test_one_worker_reads_all(names):
    assert run(Dataset.text_lines(names), Mode.FILE, 1) == [LINES]


def test_a_mixture_of_files_without_numbers_is_mixed_by_each_part(folder):
    def some(digits):
        names = Dataset.list_files(str(folder / f"[{digits}].txt"), shuffle=False)
        return names.interleave(Dataset.text_lines, cycle_length=1)

    sources = {"low": some("0-1"), "high": some("2-3")}
    dataset = Dataset.mixture(sources, {"low": 1, "high": 1}, seed=1, stop="drop")

    first, second = run(dataset, Mode.FILE, 2)
    assert sorted(first) == lines_of(0, 2)
    assert sorted(second) == lines_of(1, 3)
    for part in (first, second):  # the weights hold in each
        assert [line[0] in "01" for line in part[::2]] != [line[0] in "01" for line in part[1::2]]


@pytest.mark.parametrize(
    ("build", "source"),
    [
        (lambda names: Dataset.range(5).map(abs), "range"),
        (lambda names: Dataset.from_tensor_slices([1, 2]), "from_tensor_slices"),
        (lambda names: Dataset.from_generator(lambda: iter([1])), "from_generator"),
        (lambda names: Dataset.zip((Dataset.text_lines(names), Dataset.range(9))), "range"),
        (lambda names: Dataset.text_lines(names).concatenate(Dataset.range(2).map(str)), "range"),
        (lambda names: Dataset.range(3).flat_map(lambda i: Dataset.range(int(i))), "range"),
    ],
)
def test_a_source_without_files_is_named_with_the_ways_out(names, build, source):
    dataset = build(names)

    with pytest.raises(DatasetError, match=f"FILE: {source}.* reads no files.*use .*DATA"):
        check(dataset.node, Mode.FILE)
    check(dataset.node, Mode.FILE_OR_DATA)


@pytest.mark.parametrize("build", [mixed_by_number, lambda names: lines_in(names).global_shuffle()])
def test_files_whose_elements_have_numbers_are_not_divided(names, build):
    dataset = build(names)

    with pytest.raises(DatasetError, match="text_lines finds elements by their num.*use .*DATA"):
        check(dataset.node, Mode.FILE)
    assert sorted(flat(run(dataset, Mode.FILE_OR_DATA, 2))) == LINES


def test_too_few_files_are_an_error_that_says_how_many(listed, names):
    wanted = r"FILE: list_files gives 5 files, and worker_addresses of the dispatcher has 6 workers"
    with pytest.raises(DatasetError, match=wanted):
        run(listed().interleave(Dataset.text_lines), Mode.FILE, 6)
    with pytest.raises(DatasetError, match="text_lines gives 1 file, "):
        run(Dataset.text_lines(names[:1]), Mode.FILE, 2)
    with pytest.raises(DatasetError, match="take gives 2 files, "):
        run(listed().take(2).interleave(Dataset.text_lines), Mode.FILE, 3)


def test_files_that_are_not_counted_may_leave_a_part_empty(listed):
    few = listed(shuffle=False).filter(lambda name: "0.txt" in name)

    assert run(few.interleave(Dataset.text_lines), Mode.FILE, 2) == [lines_of(0), []]


def test_file_or_data_takes_files_where_there_are_enough(names):
    lines = Dataset.text_lines(names)

    assert run(lines, Mode.FILE_OR_DATA, 5) == [lines_of(i) for i in range(5)]
    assert run(lines, Mode.FILE_OR_DATA, 6) == [LINES[i::6] for i in range(6)]
    assert run(Dataset.range(5), Mode.FILE_OR_DATA, 2) == [[0, 2, 4], [1, 3]]


# --- by element ---


def test_elements_are_divided_at_the_end(names):
    counted = Dataset.text_lines(names).take(7)

    assert run(counted, Mode.DATA, 3) == [LINES[i:7:3] for i in range(3)]


def test_what_only_prefetches_or_has_options_stays_the_end():
    ends = Dataset.range(4).map(abs).prefetch(2).with_options(Options())

    node = sharded(ends.node, Mode.DATA, Part(2, 0))

    assert [node.op, node.upstream.op, node.upstream.upstream.op] == [
        "with_options",
        "prefetch",
        "shard",
    ]


def test_all_tasks_draw_alike_before_the_cut_and_apart_behind_it():
    def draw(x, *, rng):
        return int(rng.integers(1 << 30))

    before = run(Dataset.range(6).map(draw).shuffle(6), Mode.DATA, 2)
    whole = run(Dataset.range(6).map(draw).shuffle(6), Mode.DATA, 1)
    apart = run(Dataset.range(6).shard(SHARD_HINT, 0).map(draw), Mode.HINT, 2)

    assert len({*flat(before)}) == len(flat(whole)) == 6
    assert not {*apart[0]} & {*apart[1]}


def test_nothing_is_divided_into_nothing():
    assert run(Dataset.range(0), Mode.DATA, 2) == [[], []]


@pytest.mark.parametrize("mode", [Mode.DATA, Mode.FILE_OR_DATA])
def test_elements_that_overtake_each_other_cannot_be_numbered(mode):
    hasty = Dataset.range(9).map(abs, num_parallel_calls=2, deterministic=False)

    with pytest.raises(DatasetError, match=rf"{mode.name}: map\(abs\) lets elements overtake"):
        check(hasty.node, mode)


def test_behind_the_files_elements_may_overtake_each_other(listed):
    hasty = listed().interleave(
        Dataset.text_lines, num_parallel_calls=2, deterministic=False, cycle_length=2
    )

    check(hasty.node, Mode.FILE)


# --- by hints ---


def test_each_hint_is_a_cut_whatever_its_index():
    hinted = Dataset.range(10).shard(SHARD_HINT, 77).map(lambda x: x * 2)
    both = (
        Dataset.range(4)
        .shard(SHARD_HINT, 0)
        .concatenate(Dataset.range(10, 14).shard(SHARD_HINT, SHARD_HINT))
    )

    assert run(hinted, Mode.HINT, 3) == [[0, 6, 12, 18], [2, 8, 14], [4, 10, 16]]
    assert run(both, Mode.HINT, 2) == [[0, 2, 10, 12], [1, 3, 11, 13]]


def test_a_pipeline_without_hint_is_refused_at_once():
    with pytest.raises(DatasetError, match=r"HINT: the pipeline has no shard\(SHARD_HINT, 0\)"):
        check(Dataset.range(4).shard(2, 0).node, Mode.HINT)


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.HINT])
def test_a_hint_elsewhere_is_refused_at_once(mode):
    with pytest.raises(DatasetError, match=r"distribute with ShardingPolicy\.HINT"):
        check(Dataset.range(4).shard(SHARD_HINT, 0).node, mode)


def test_other_modes_run_what_is_written():
    node = Dataset.range(4).node

    assert sharded(node, Mode.OFF, Part(2, 1)) is sharded(node, Mode.DYNAMIC, Part(2, 1)) is node


# --- what sees a part ---


def test_operators_behind_the_cut_are_those_that_see_a_part(names):
    lines = Dataset.text_lines(names).take(4).shard(SHARD_HINT, 0).batch(2).map(len)
    plain = Dataset.text_lines(names).take(4).batch(2)

    assert [node.op for node in divided_operators(lines.node, Mode.HINT)] == ["batch"]
    assert [node.op for node in divided_operators(plain.node, Mode.FILE)] == ["take", "batch"]
    assert [node.op for node in divided_operators(plain.node, Mode.FILE_OR_DATA)] == [
        "take",
        "batch",
    ]
    assert divided_operators(plain.node, Mode.DATA) == []


@pytest.mark.parametrize("mode", STATIC)
def test_parts_together_are_the_whole(names, mode):
    lines = Dataset.text_lines(names).shuffle(4)
    lines = lines.shard(SHARD_HINT, 0) if mode is Mode.HINT else lines

    for shards in (1, 2, 5):
        assert sorted(flat(run(lines, mode, shards))) == LINES
