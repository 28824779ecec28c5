from hypothesis import given
from hypothesis import strategies as st

from penstock.saved.chunks import ChunkContents
from penstock.saved.pieces import LEAST, Piece, as_one, finished
from penstock.saved.receipts import begins_split, new_chunk

CHUNK = 80


def piece(count, nbytes, *, ends, split):
    contents = ChunkContents(count, nbytes, 0, ())
    return Piece(new_chunk(begins_split=split), contents, nbytes, ends)


def counts(chunks):
    return [sum(one.contents.count for one in chunk) for chunk in chunks]


@st.composite
def cut_splits(draw):
    """Splits of elements of some bytes, and their pieces, as time and crashes cut them."""
    splits = draw(st.lists(st.lists(st.integers(1, 60), max_size=9), max_size=9))
    pieces = []
    for sizes in splits:
        begun, nbytes, count = True, 0, 0
        for number, size in enumerate(sizes):
            nbytes, count = nbytes + size, count + 1
            is_last = number == len(sizes) - 1
            is_full = nbytes >= CHUNK
            # A worker whose time is up does not know that no element follows.
            cut = draw(st.sampled_from(["", "", "time"] if is_last else ["", "", "time", "crash"]))
            if not (is_full or is_last or cut):
                continue
            ends = is_full or (is_last and cut != "time")
            told = 0 if cut == "crash" and not is_full else nbytes
            pieces.append(piece(count, told, ends=ends, split=begun))
            begun, count, nbytes = False, 0, 0 if is_full else nbytes
    return splits, pieces


def expected(splits):
    """Return how many elements each chunk has that nothing cut."""
    chunks, short, small = [], 0, 0
    for sizes in splits:
        stretches, nbytes, count = [], 0, 0
        for size in sizes:
            nbytes, count = nbytes + size, count + 1
            if nbytes >= CHUNK:
                stretches.append((count, nbytes))
                nbytes = count = 0
        for many, size in [*stretches, (count, nbytes)] if count else stretches:
            if size >= CHUNK / LEAST:
                chunks += [short, many] if short else [many]
                short = small = 0
                continue
            short, small = short + many, small + size
            if small >= CHUNK / LEAST:
                chunks.append(short)
                short = small = 0
    return [*chunks, short] if short else chunks


@given(cut_splits(), st.data())
def test_chunks_depend_on_elements_alone_whatever_cuts_them_and_whenever_they_are_committed(
    made, data
):
    splits, pieces = made
    chunks, left, waiting = [], [], list(pieces)
    while waiting:
        some = data.draw(st.integers(1, len(waiting)))
        done, short, begun = finished([*left, *waiting[:some]], CHUNK, is_over=False)
        chunks, waiting = chunks + done, waiting[some:]
        left = joined(data, short, ended=True) + joined(data, begun, ended=False)
    done, *left = finished(left, CHUNK, is_over=True)

    assert left == [[], []]
    assert counts([*chunks, *done]) == expected(splits)


def joined(data, pieces, *, ended):
    """Return *pieces*, perhaps with one in place of the last ones."""
    first = data.draw(st.integers(0, len(pieces)))
    kept, new = pieces[:first], pieces[first:]
    if len(new) < 2:
        return pieces
    number = new_chunk(begins_split=begins_split(new[0].number))
    contents = ChunkContents(sum(one.contents.count for one in new), 0, 0, ())
    return [*kept, as_one(number, contents, new, ended=ended)]


@given(cut_splits())
def test_few_elements_wait_for_the_end_of_their_chunk(made):
    _, pieces = made
    _, short, begun = finished(pieces, CHUNK, is_over=False)

    assert sum(one.nbytes for one in short if one.ends) * LEAST < CHUNK
    assert not any(one.ends for one in begun)


def test_the_number_of_a_new_chunk_tells_whether_a_split_begins_with_it():
    assert begins_split(new_chunk(begins_split=True))
    assert not begins_split(new_chunk(begins_split=False))
