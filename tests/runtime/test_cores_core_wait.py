"""Whether threads wait for a core: computing that is held up by others is not taken for sleep."""

from penstock.runtime.cores import EVERY, CoreWait


def folder(tmp_path, **threads):
    for name, (ran, waited) in threads.items():
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "schedstat").write_text(f"{ran * 10**9:.0f} {waited * 10**9:.0f} 7\n")
    return tmp_path


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_a_thread_that_waited_as_long_as_it_ran_took_twice_as_long(tmp_path):
    assert CoreWait(folder(tmp_path, a=(2, 3), b=(1, 0))).crowded() == 2.0


def test_what_counts_is_what_happened_since_the_look_before(tmp_path):
    clock = Clock()
    cores = CoreWait(folder(tmp_path, a=(2, 2)), clock)
    assert cores.crowded() == 2.0
    folder(tmp_path, a=(4, 2))
    assert cores.crowded() == 2.0  # not looked again yet
    clock.now += EVERY
    assert cores.crowded() == 1.0


def test_where_nothing_has_run_since_it_stays_as_it_was(tmp_path):
    clock = Clock()
    cores = CoreWait(folder(tmp_path, a=(1, 1)), clock)
    cores.crowded()
    clock.now += EVERY
    assert cores.crowded() == 2.0


def test_where_the_system_does_not_say_nobody_waits(tmp_path):
    assert CoreWait(tmp_path / "missing").crowded() == 1.0
    (tmp_path / "a").mkdir()
    assert CoreWait(tmp_path).crowded() == 1.0
