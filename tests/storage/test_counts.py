import threading

from penstock.storage.counts import StorageCounts, count, counted, take_counts


def test_counts_of_threads_are_added():
    before = counted()

    threads = [
        threading.Thread(target=lambda: [count(requests=1, nbytes=2) for _ in range(500)])
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert counted().requests - before.requests == 4000
    assert counted().nbytes - before.nbytes == 8000
    assert StorageCounts(1, 2).plus(StorageCounts(3, 4)) == StorageCounts(4, 6)


def test_counts_are_reported_once():
    take_counts()
    count(requests=2, nbytes=100)
    count(requests=1, wait_seconds=0.5)

    assert take_counts() == StorageCounts(requests=3, nbytes=100, wait_seconds=0.5)
    assert take_counts() == StorageCounts()
