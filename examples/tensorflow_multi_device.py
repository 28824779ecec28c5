"""Several devices train one model on digits, in TensorFlow: in one process, or in a cluster.

With the workers of `penstock up --workers 2`:

    python examples/tensorflow_multi_device.py grpc://localhost:7000 --towers 2

has a tower on each of two logical devices. In each step each takes a batch of its own: towers read
in rounds. The controller device has the variables, and averages the towers' gradients.
`--feed local` makes the batches in this process; `--table` prints how fast all of that is.

In a cluster with parameter servers that `TF_CONFIG` describes, each process has a graph of its own:
chief and workers step as they like or, with `--sync`, together. The chief saves, and whichever
process was killed goes on when it is started again. It needs
``pip install "penstock[tensorflow]" scikit-learn``, whose digits of 8 x 8 pixels workers enlarge.
"""

import argparse
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from tensorflow.compat import v1

import penstock
from penstock import Dataset
from penstock.service import register_dataset
from penstock.tensorflow import as_dataset

SIDE, BATCH, RATE = 28, 32, 0.1
TRAINED_ON = 1500
"""How many of the 1797 digits are trained on; the model is tried on the others."""
SHAPES = {"kernel": (5, 5, 1, 8), "weights": (14 * 14 * 8, 10), "bias": (10,)}
SPEC = (tf.TensorSpec((BATCH, SIDE, SIDE), tf.float32), tf.TensorSpec((BATCH,), tf.int32))
ENLARGING = np.stack([np.interp(np.linspace(0, 7, SIDE), np.arange(8), row) for row in np.eye(8)])


def enlarged(image: Any) -> Any:
    """Return a digit with 28 x 28 pixels, from 0 to 1."""
    return (ENLARGING.T @ image @ ENLARGING / 16).astype(np.float32)


def batches(seconds: float) -> Dataset:
    """Return batches of digits without an end; to make an image takes *seconds* more."""
    digits = load_digits()
    images, labels = digits.images.astype(np.uint8), digits.target.astype(np.int32)

    def example(pair: Any) -> Any:
        time.sleep(seconds)
        return enlarged(pair[0]), pair[1]

    digits = Dataset.from_tensor_slices((images[:TRAINED_ON], labels[:TRAINED_ON]))
    shuffled = digits.shuffle(TRAINED_ON).repeat()
    return shuffled.map(lambda *pair: example(pair)).batch(BATCH, drop_remainder=True)


def read(given: argparse.Namespace, job_name: str, **consumer: int) -> tf.data.Dataset:
    """Return the batches of a job, by TensorFlow's own client."""
    dataset_id = register_dataset(given.target, batches(given.seconds))
    return tf.data.experimental.service.from_dataset_id(
        "distributed_epoch",
        given.target,
        dataset_id,
        element_spec=SPEC,
        job_name=job_name,
        **consumer,
    )


def logits(variables: dict[str, Any], images: Any) -> Any:
    """Return what the model says of each image."""
    found = tf.nn.conv2d(images[..., tf.newaxis], variables["kernel"], 2, "SAME")
    flat = tf.reshape(tf.nn.relu(found), (-1, SHAPES["weights"][0]))
    return flat @ variables["weights"] + variables["bias"]


def loss(variables: dict[str, Any], images: Any, labels: Any) -> Any:
    """Return how wrong the model is, on average."""
    said = logits(variables, images)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, said))


def accuracy(variables: dict[str, Any]) -> float:
    """Return how often the model is right about digits that it was not trained on."""
    digits = load_digits()
    images = np.stack([enlarged(image) for image in digits.images[TRAINED_ON:]])
    said = tf.argmax(logits(variables, images), axis=1).numpy()
    return float((said == digits.target[TRAINED_ON:]).mean())


# In one process ------------------------------------------------------------------------------


class Towers:
    """So many towers, each on a device, and a controller device with the variables."""

    def __init__(self, towers: int, given: argparse.Namespace, feed: str) -> None:
        self.devices = [f"CPU:{index + 1}" for index in range(towers)]
        with tf.device("CPU:0"):
            start = tf.random.stateless_normal
            self.variables = {
                name: tf.Variable(start(shape, (1, 2), stddev=0.1))
                for name, shape in SHAPES.items()
            }
        self.iterators = self._iterators(given, feed)
        self.step = tf.function(self._step)

    def _iterators(self, given: argparse.Namespace, feed: str) -> list[Any]:
        """Return what each tower reads: a consumer of the mesh, or all the same pipeline."""
        towers = len(self.devices)
        if feed == "local":
            return [iter(as_dataset(batches(given.seconds)))] * towers
        found = []
        for index, device in enumerate(self.devices):
            with tf.device(device):
                job = f"{given.run} {towers}"
                dataset = read(given, job, consumer_index=index, num_consumers=towers)
                found.append(iter(dataset))
        return found

    def _step(self) -> Any:
        """Take a batch for each tower, and one step by the mean of their gradients."""
        losses, gradients = [], []
        for device, iterator in zip(self.devices, self.iterators, strict=True):
            with tf.device(device), tf.GradientTape() as tape:
                batch = next(iterator)
                losses.append(loss(self.variables, *batch))
                gradients.append(tape.gradient(losses[-1], list(self.variables.values())))
        with tf.device("CPU:0"):
            for variable, each in zip(
                self.variables.values(), zip(*gradients, strict=True), strict=True
            ):
                variable.assign_sub(RATE * tf.reduce_mean(tf.stack(each), axis=0))
            return tf.reduce_mean(tf.stack(losses))

    def run(self, steps: int) -> float:
        """Take so many steps; return how many images were taken a second."""
        self.step()
        began = time.monotonic()
        for _ in range(steps):
            last = self.step()
        last.numpy()
        return steps * len(self.devices) * BATCH / (time.monotonic() - began)


def in_one_process(given: argparse.Namespace) -> None:
    """Train with towers, or print the table."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    most = 4 if given.table else given.towers
    logical = [tf.config.LogicalDeviceConfiguration()] * (most + 1)
    tf.config.set_logical_device_configuration(cpu, logical)
    if given.table:
        print("| towers | mesh, images/s | local, images/s |\n| --- | --- | --- |")
        for towers in (1, 2, 4):
            mesh, local = (
                Towers(towers, given, feed).run(given.steps) for feed in ("mesh", "local")
            )
            print(f"| {towers} | {mesh:,.0f} | {local:,.0f} |", flush=True)
        return
    trained = Towers(given.towers, given, given.feed)
    speed, right = trained.run(given.steps), accuracy(trained.variables)
    print(f"{given.towers} towers, {given.feed}: {speed:,.0f} images/s, accuracy {right:.3f}")


# In a cluster --------------------------------------------------------------------------------


def cluster_of(place: Any) -> tf.train.ClusterSpec:
    """Return those of the cluster that TensorFlow knows: it may have a dispatcher, too."""
    roles = ("chief", "worker", "ps")
    return tf.train.ClusterSpec({role: place.addresses[role] for role in roles})


def serve(place: Any) -> Any:
    """Start this process's server of graphs; a parameter server is nothing else."""
    server = tf.distribute.Server(cluster_of(place), place.role, place.index, protocol="grpc")
    if place.role == "ps":
        server.join()
    return server


def training_step(place: Any, given: argparse.Namespace) -> tuple[Any, list[Any]]:
    """Add a step to this process's graph; return it, and the hooks that it needs."""
    dataset = read(given, given.run)  # by all processes, first come, first served
    iterator = v1.data.make_initializable_iterator(dataset)
    v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    normal = v1.random_normal_initializer(stddev=0.1, seed=1)
    variables = {
        name: v1.get_variable(name, shape, initializer=normal) for name, shape in SHAPES.items()
    }
    optimizer = v1.train.GradientDescentOptimizer(RATE)
    hooks = []
    if given.sync:
        all_of_them = place.num_consumers
        optimizer = v1.train.SyncReplicasOptimizer(optimizer, all_of_them, all_of_them)
        # No tokens to begin with: nobody takes the place of one that has not begun.
        hooks = [optimizer.make_session_run_hook(place.is_chief, num_tokens=0)]
    step = v1.train.get_or_create_global_step()
    return optimizer.minimize(loss(variables, *iterator.get_next()), step), hooks


class WhenReady(v1.train.SessionCreator):  # type: ignore[misc]
    """A worker's way into the cluster: it looks each second whether the chief has begun."""

    def __init__(self, target: str, config: Any) -> None:
        self.target, self.config = target, config
        self.scaffold = v1.train.Scaffold()

    def create_session(self) -> Any:
        """Return a session once all variables have values."""
        self.scaffold.finalize()
        manager = v1.train.SessionManager(
            local_init_op=self.scaffold.local_init_op,
            ready_op=self.scaffold.ready_op,
            ready_for_local_init_op=self.scaffold.ready_for_local_init_op,
            recovery_wait_secs=1,
        )
        return manager.wait_for_session(self.target, self.config)


class SaySaved(v1.train.CheckpointSaverListener):  # type: ignore[misc]
    """Prints when the chief has saved."""

    def after_save(self, session: Any, global_step_value: int) -> None:  # noqa: ARG002
        """Print the step."""
        print(f"saved at step {global_step_value}", flush=True)


def creator(place: Any, target: str, given: argparse.Namespace) -> Any:
    """Return what begins a session: the chief restores what it saved, and workers wait for it."""
    # It is of this process and the parameter servers: no other process keeps it waiting.
    me = f"/job:{place.role}/task:{place.index}"
    config = v1.ConfigProto(device_filters=["/job:ps", me])
    if not place.is_chief:
        return WhenReady(target, config)
    return v1.train.ChiefSessionCreator(
        master=target, config=config, checkpoint_dir=str(given.checkpoints)
    )


def without_cancelled(failed: threading.ExceptHookArgs) -> None:
    """Print the error that ended a thread; a session that is closed cancels its queues' threads."""
    if not issubclass(failed.exc_type, tf.errors.CancelledError):
        threading.__excepthook__(failed)


def in_a_cluster(place: Any, given: argparse.Namespace) -> None:
    """Serve variables, or step with a graph of our own until all steps are done."""
    server, saved = serve(place), str(given.checkpoints)
    setter = v1.train.replica_device_setter(
        cluster=cluster_of(place),
        worker_device=f"/job:{place.role}/task:{place.index}",
    )
    with tf.Graph().as_default(), v1.device(setter):
        train, hooks = training_step(place, given)
        hooks.append(v1.train.StopAtStepHook(last_step=given.steps))
        if place.is_chief:
            listeners = [SaySaved()]
            hooks.append(
                v1.train.CheckpointSaverHook(saved, save_steps=given.every, listeners=listeners)
            )
        threading.excepthook = without_cancelled
        began = creator(place, server.target, given)
        # At the end nobody waits for the queue of gradients, to which none are added any more.
        with v1.train.MonitoredSession(began, hooks, stop_grace_period_secs=1) as session:
            step, steps = session.run(v1.train.get_global_step()), 0
            print(f"{place.role} {place.index} begins at step {step}", flush=True)
            while not session.should_stop():
                session.run(train)
                steps += 1
    print(f"{place.role} {place.index}: {steps} steps", flush=True)
    if place.is_chief:
        reader = tf.train.load_checkpoint(saved)
        found = {name: reader.get_tensor(name) for name in SHAPES}
        print(
            f"step {reader.get_tensor('global_step')}, accuracy {accuracy(found):.3f}", flush=True
        )


def main() -> None:
    """Do what this process is for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("target", nargs="?", help="the dispatcher; else PENSTOCK_TARGET")
    parser.add_argument("--towers", type=int, default=2)
    parser.add_argument("--feed", choices=("mesh", "local"), default="mesh")
    parser.add_argument("--table", action="store_true", help="print how fast towers are")
    parser.add_argument("--sync", action="store_true", help="step together, in a cluster")
    parser.add_argument("--run", default="digits", help="a name, one for each run")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--every", type=int, default=50, help="steps from one save to the next")
    parser.add_argument("--checkpoints", type=Path, default=Path("checkpoints"))
    parser.add_argument("--seconds", type=float, default=0, help="that it takes to make an image")
    given = parser.parse_args()
    given.target = given.target or os.environ.get("PENSTOCK_TARGET", "localhost:7000")
    place = penstock.cluster_environment()
    if place.addresses.get("ps"):
        in_a_cluster(place, given)
    else:
        in_one_process(given)
    sys.stdout.flush()
    os._exit(0)  # to end in order takes TensorFlow many seconds


if __name__ == "__main__":
    main()
