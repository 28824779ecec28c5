import threading

from penstock.storage.counts import StorageCounts, count, counted


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
