"""TensorFlow's ParameterServerStrategy: remote workers read the mesh, the chief none of the data.

The same program on each host of a cluster that `TF_CONFIG` describes: chief, workers, parameter
servers and, outside the cluster, an evaluator. With the workers of `penstock up --workers 2`:

    python examples/tensorflow_parameter_server.py grpc://localhost:7000

Workers read by TensorFlow's own client, which runs where Python does not: inside their graphs.
`--by fit` trains by `Model.fit`, `--by coordinator` by a loop around `ClusterCoordinator`, which
counts how often each sample was trained on, and the workers that were replaced. SIGTERM ends the
chief at the end of an epoch. It needs ``pip install "penstock[tensorflow]" tf-keras``: Keras 3 has
no parameter servers.
"""

import argparse
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

import penstock
from penstock import Dataset
from penstock.service import register_dataset

WORDS = ("avenger", "ironman", "batman", "hulk", "spiderman", "kingkong", "wonder_woman")
BATCH = 32
PORT_TRIES = 30
"""How often a server tries to listen at its place in the cluster, once a second."""
SPEC = {
    "words": tf.TensorSpec((None, 3), tf.int64),
    "label": tf.TensorSpec((None, 1), tf.float32),
    "number": tf.TensorSpec((None,), tf.int64),
}


def samples(seed: int, seconds: float) -> Dataset:
    """Return three words each, and whether the first of all is among them; numbered, endless."""

    def sample(number: int) -> dict[str, Any]:
        time.sleep(seconds)
        drawn = random.Random(f"{seed} {number}").sample(range(len(WORDS)), 3)
        label = np.array([0 in drawn], np.float32)
        return {"words": np.array(drawn), "label": label, "number": number}

    return Dataset.range(2**40).map(sample).batch(BATCH, drop_remainder=True)


def read(target: str, dataset_id: str, job_name: str) -> tf.data.Dataset:
    """Return the batches of a job that all workers share, by TensorFlow's own client."""
    return tf.data.experimental.service.from_dataset_id(
        "distributed_epoch", target, dataset_id, element_spec=SPEC, job_name=job_name
    )


def for_fit(batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    """Return what `Model.fit` takes of a batch."""
    return batch["words"], batch["label"]


def compiled() -> keras.Model:
    """Return the model: an embedding large enough to be divided among parameter servers."""
    model = keras.Sequential(
        [
            keras.Input((3,), dtype=tf.int64),
            keras.layers.Embedding(len(WORDS) + 2, 16384),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    optimizer = keras.optimizers.RMSprop(0.003)
    model.compile(optimizer, "binary_crossentropy", [keras.metrics.BinaryAccuracy("accuracy")])
    return model


def cluster_of(place: Any) -> tf.train.ClusterSpec:
    """Return those of the cluster that TensorFlow knows: it may have a dispatcher, too."""
    roles = ("chief", "worker", "ps")
    return tf.train.ClusterSpec({role: place.addresses[role] for role in roles})


def serve(place: Any) -> None:
    """Run graphs, or keep variables, until the launcher ends this process.

    Its port may be taken for a while: by a connection of anybody, if it is one of those that the
    system gives to connections.
    """
    for left in reversed(range(PORT_TRIES)):
        try:
            server = tf.distribute.Server(cluster_of(place), place.role, place.index, "grpc")
            break
        except tf.errors.UnknownError as exc:
            at = place.addresses[place.role][place.index]
            if not left:
                sys.exit(f"{place.role} {place.index} cannot have {at}: {exc.message}")
            print(f"{place.role} {place.index} cannot have {at} yet", flush=True)
            time.sleep(1)
    server.join()


def announce(model: keras.Model) -> None:
    """Print how the embedding is divided."""
    whole = model.layers[0].embeddings
    parts = [part.device.split("/")[3] for part in getattr(whole, "variables", [whole])]
    print(f"the embedding is divided: {', '.join(sorted(parts))}", flush=True)


class Say(keras.callbacks.Callback):  # type: ignore[misc]
    """Prints what the side-car found."""

    def on_test_end(self, logs: dict[str, float] | None = None) -> None:
        """Print the accuracy at a checkpoint."""
        print(f"side-car: accuracy {(logs or {})['accuracy']:.3f}", flush=True)


def evaluate_beside(given: argparse.Namespace) -> None:
    """Evaluate what the chief saves, beside the training, until its last checkpoint."""
    keras.utils.SidecarEvaluator(
        compiled(),
        read(given.target, given.validation, f"{given.run} side-car").map(for_fit),
        str(given.checkpoints),
        steps=given.steps,
        max_evaluations=given.epochs,
        callbacks=[Say()],
    ).start()


def strategy_of(place: Any) -> tf.distribute.ParameterServerStrategy:
    """Return the strategy of the cluster, which divides variables of 256 KiB and more."""
    partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(
        256 << 10, len(place.addresses["ps"])
    )
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        cluster_of(place), rpc_layer="grpc"
    )
    return tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)


def fit(strategy: Any, given: argparse.Namespace, over: threading.Event) -> None:
    """Train by `Model.fit`, with evaluation inline."""
    with strategy.scope():
        model = compiled()
    announce(model)

    def creator(dataset_id: str, job_name: str) -> Any:
        return keras.utils.experimental.DatasetCreator(
            lambda _context: read(given.target, dataset_id, job_name).map(for_fit)
        )

    checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer)

    def done(epoch: int, logs: dict[str, float]) -> None:
        checkpoint.save(f"{given.checkpoints}/epoch")
        model.stop_training = over.is_set()
        print(
            f"epoch {epoch + 1}: accuracy {logs['accuracy']:.3f}, "
            f"evaluated {logs['val_accuracy']:.3f}",
            flush=True,
        )

    model.fit(
        creator(given.training, given.run),
        epochs=given.epochs,
        steps_per_epoch=given.steps,
        validation_data=creator(given.validation, f"{given.run} inline"),
        validation_steps=given.steps,
        callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=done)],
        verbose=0,
    )


class Loop:
    """A loop of our own: steps go to whichever worker is free, and again if that one dies."""

    def __init__(self, strategy: Any, given: argparse.Namespace) -> None:
        self.given, self.strategy = given, strategy
        self.coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        with strategy.scope():
            self.model = compiled()
            self.accuracy = keras.metrics.BinaryAccuracy()
        self.seen: Counter[int] = Counter()
        self.steps_of: Counter[float] = Counter()

    def batches(self, dataset_id: str, job_name: str) -> Any:
        """Return an iterator that each worker has for itself, over a job that all share.

        Beside each batch there is the time at which its worker began to read: another time is
        another life of a worker.
        """

        def dataset() -> tf.data.Dataset:
            since = tf.data.Dataset.from_tensors(tf.timestamp()).repeat()
            return tf.data.Dataset.zip((read(self.given.target, dataset_id, job_name), since))

        return iter(self.coordinator.create_per_worker_dataset(dataset))

    def train(self, iterator: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """Take one step, on a worker; return which samples it took, and who it is."""
        batch, since = next(iterator)

        def replica(words: tf.Tensor, label: tf.Tensor) -> None:
            with tf.GradientTape() as tape:
                said = self.model(words, training=True)
                loss = tf.reduce_mean(keras.losses.binary_crossentropy(label, said))
            variables = self.model.trainable_variables
            gradients = tape.gradient(loss, variables)
            self.model.optimizer.apply_gradients(zip(gradients, variables, strict=True))
            self.accuracy.update_state(label, said)

        self.strategy.run(replica, (batch["words"], batch["label"]))
        return batch["number"], since

    def evaluate(self, iterator: Any) -> None:
        """Count how often the model is right about one batch, on a worker."""
        batch, _ = next(iterator)
        self.accuracy.update_state(batch["label"], self.model(batch["words"], training=False))

    def done_with(self, step: Any, iterator: Any) -> tuple[list[Any], float]:
        """Have an epoch's steps done; return what each returned, and the accuracy."""
        self.accuracy.reset_state()
        steps = [self.coordinator.schedule(step, args=(iterator,)) for _ in range(self.given.steps)]
        self.coordinator.join()
        assert self.coordinator.done()
        return self.coordinator.fetch(steps), float(self.accuracy.result())

    def run(self, over: threading.Event) -> None:
        """Train and evaluate in turn, until it is *over*; save each epoch."""
        announce(self.model)
        checkpoint = tf.train.Checkpoint(model=self.model, optimizer=self.model.optimizer)
        train, evaluate = tf.function(self.train), tf.function(self.evaluate)
        training = self.batches(self.given.training, self.given.run)
        validation = self.batches(self.given.validation, f"{self.given.run} inline")
        for epoch in range(1, self.given.epochs + 1):
            taken, accuracy = self.done_with(train, training)
            for numbers, since in taken:
                self.seen.update(numbers.tolist())
                self.steps_of[float(since)] += 1
            _, evaluated = self.done_with(evaluate, validation)
            checkpoint.save(f"{self.given.checkpoints}/epoch")
            print(
                f"epoch {epoch}: accuracy {accuracy:.3f}, evaluated {evaluated:.3f}, "
                f"by {len(self.steps_of)} lives of workers",
                flush=True,
            )
            if over.is_set():
                break
        more = sum(times > 1 for times in self.seen.values())
        print(
            f"{sum(self.steps_of.values())} steps by {len(self.steps_of)} lives of workers; "
            f"{len(self.seen) - more} samples once, {more} more often",
            flush=True,
        )


def main() -> None:
    """Do what this process is for in its cluster."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("target", nargs="?", help="the dispatcher; else PENSTOCK_TARGET")
    parser.add_argument("--by", choices=("coordinator", "fit"), default="coordinator")
    parser.add_argument("--run", default="vocabulary", help="a name, one for each run")
    parser.add_argument("--checkpoints", type=Path, default=Path("checkpoints"))
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--steps", type=int, default=5, help="of an epoch")
    parser.add_argument("--seconds", type=float, default=0, help="that it takes to make a sample")
    given = parser.parse_args()
    place = penstock.cluster_environment()
    if place.role in ("worker", "ps"):
        serve(place)
    # Whoever registers a dataset first, its id is the same: the fingerprint.
    given.target = given.target or os.environ["PENSTOCK_TARGET"]
    given.training = register_dataset(given.target, samples(1, given.seconds))
    given.validation = register_dataset(given.target, samples(2, 0))
    if place.role == "evaluator":
        evaluate_beside(given)
    else:
        train(place, given)
    sys.stdout.flush()
    os._exit(0)  # to end in order takes TensorFlow many seconds


def train(place: Any, given: argparse.Namespace) -> None:
    """Train, as the chief."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    strategy = strategy_of(place)
    if given.by == "fit":
        fit(strategy, given, over)
    else:
        Loop(strategy, given).run(over)


if __name__ == "__main__":
    main()
