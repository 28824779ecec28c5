"""What a launcher says of a process, in words."""

from penstock.environment.cluster import ClusterEnvironment, Role, around, of_rank
from penstock.environment.own_variables import completed


def test_the_first_rank_is_the_chief_and_others_are_workers():
    places = [of_rank(rank, 3, "torchrun", by=("RANK", "WORLD_SIZE")) for rank in range(3)]

    assert [(one.role, one.index, one.consumer_index) for one in places] == [
        ("chief", 0, 0),
        ("worker", 0, 1),
        ("worker", 1, 2),
    ]
    assert [one.is_chief for one in places] == [True, False, False]


def test_it_explains_which_variable_said_what():
    place = ClusterEnvironment(
        Role.PS,
        1,
        None,
        None,
        trial="7",
        addresses={"ps": ["a:1", None]},
        source="tf_config",
        said={"role": "TF_CONFIG, task.type", "addresses": "TF_CONFIG, cluster"},
    )

    assert place.explain().splitlines() == [
        "source: tf_config",
        "role: ps (TF_CONFIG, task.type)",
        "index: 1",
        "trial: 7",
        "ps at a:1, ? (TF_CONFIG, cluster)",
    ]


def test_addresses_that_another_variable_says_are_explained_by_it():
    place = of_rank(0, 1, "torchrun", by=("R", "S"), addresses=(around("a:1", 1), "MASTER_ADDR"))
    place = completed(place, {"PENSTOCK_TARGET": "d:7000"})

    assert place.explain().splitlines()[-2:] == [
        "chief at a:1 (MASTER_ADDR)",
        "dispatcher at d:7000 (PENSTOCK_TARGET)",
    ]


def test_its_world_is_what_is_listed_or_who_trains():
    assert of_rank(0, 4, "mpi", by=("R", "S")).world == 4
    assert of_rank(0, 2, "jax", by=("R", "S"), addresses=(around("a:1", 2), "A")).world == 2
