"""What status shows of a worker's attempts."""

from penstock_worker.stats import RunnerStats, TrainerStats, WindowStats
from penstock_worker.task_stats import cache_stats, task_stats
from tests.worker.core.cache_trainers import CacheTrainers
from tests.worker.core.group_consumers import GroupConsumers


def test_a_task_shows_how_far_it_is():
    task = GroupConsumers()
    task.open(1, 0)
    task.make(3)

    stats = RunnerStats(1, 1, 3, 0, 1, 2, 1, "runs", "none", nbytes=300, room=10**9)
    assert task_stats([task.attempt]) == (stats,)
    assert cache_stats([task.attempt]) == ()


def test_a_cached_task_shows_its_window_and_what_each_trainer_has_of_it():
    task = CacheTrainers(frames=4)
    task.open(1, "a")
    task.open(2, "b", credit=200)
    task.make(8)
    task.open(3, "c")
    task.ack(1, (0, 3))

    trainers = (
        TrainerStats("a", 3, 0, 0, ready=0, unacked=5, readers=1),
        TrainerStats("b", 2, 2, 0, ready=4, unacked=2, readers=1),
        TrainerStats("c", 4, 0, 4, ready=0, unacked=4, readers=1),
    )
    assert cache_stats([task.attempt]) == (
        WindowStats(1, "job", 400, 400, 4, 8, 14, 14 / 8, trainers),
    )
