"""The Kubernetes manifests: valid by the published schemas, and their commands run as given."""

import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from penstock.dataset.dataset import Dataset
from penstock.environment.detect import cluster_environment
from penstock_cluster.cli.launch.plan import target_of
from penstock_dispatcher import DispatcherConfig, DispatchServer
from penstock_worker import WorkerConfig, WorkerServer
from tests.credentials.keyring import made
from tests.docs.pages import DOCS, blocks
from tests.free_ports import free_ports

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
BASE, OVERLAYS = FOLDER / "base", sorted((FOLDER / "overlays").iterdir())
VERSIONS = ["1.33", "1.37"]
"""The oldest and the newest whose schemas resources are held against."""

SECONDS = 60


def documents(file):
    return [document for document in yaml.safe_load_all(file.read_text()) if document]


def resources(folder):
    files = (file for file in sorted(folder.rglob("*.yaml")) if file.name != "kustomization.yaml")
    return [document for file in files for document in documents(file)]


def of_kubernetes(resource):
    """Whether a resource is of Kubernetes itself, and so has a published schema here."""
    return not resource["apiVersion"].startswith(("leaderworkerset", "monitoring.coreos.com"))


def page_blocks(kind):
    """Return the blocks of *kind* of the page about Kubernetes."""
    page = DOCS / "how-to" / "deploying-on-kubernetes.md"
    return [block.text for block in blocks(page) if block.kind == kind]


def templates():
    """Return the pod templates of the base, by the name of what makes the pods."""
    return {
        each["metadata"]["name"]: each["spec"]["template"]
        for each in resources(BASE)
        if each["kind"] in {"Deployment", "StatefulSet"}
    }


def containers():
    for name, template in templates().items():
        for container in template["spec"]["containers"]:
            yield pytest.param(template, container, id=f"{name}/{container['name']}")


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_each_resource_is_valid_by_its_published_schema(version):
    of_core = [each for each in resources(FOLDER) if of_kubernetes(each)]
    assert len(of_core) > 5
    for each in of_core:
        kubernetes_validate.validate(each, version, strict=True)


def test_the_pods_of_a_leader_worker_set_are_valid():
    (group,) = documents(FOLDER / "examples" / "leader-worker-set.yaml")
    template = group["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    pods = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}}

    kubernetes_validate.validate(pods | {"template": template}, VERSIONS[-1], strict=True)
    assert template["metadata"]["labels"]["penstock.dev/client"] == "true"  # the network lets it in


def training_pods():
    """Yield role, index and variables of each pod of the job with parameter servers."""
    found = documents(FOLDER / "examples" / "parameter-servers.yaml")
    (listed,) = (each["data"] for each in found if each["kind"] == "ConfigMap")
    for job in (each for each in found if each["kind"] == "Job"):
        (container,) = job["spec"]["template"]["spec"]["containers"]
        for index in range(job["spec"]["completions"]):
            env = {}
            for each in container["env"]:
                value = each.get("value", str(index))
                if "configMapKeyRef" in each.get("valueFrom", {}):
                    value = listed[each["valueFrom"]["configMapKeyRef"]["key"]]
                for name, known in env.items():
                    value = value.replace(f"$({name})", known)
                env[each["name"]] = value
            yield job["metadata"]["name"], index, {**env, "JOB_COMPLETION_INDEX": str(index)}


def test_each_pod_of_a_job_with_parameter_servers_is_told_who_it_is():
    places = {}
    for name, index, env in training_pods():
        place = cluster_environment(env)
        assert (f"train-{place.role.value}", place.index) == (name, index)
        places[f"{name}-{index}.train:2222"] = place

    for place in places.values():
        assert {one for listed in place.addresses.values() for one in listed} == set(places)
        assert target_of(place) == "train-chief-0.train:7000"  # the chief starts it there


def test_no_start_of_a_pod_opens_the_journal_to_its_group():
    made = [each["spec"] for each in resources(FOLDER) if of_kubernetes(each) and "spec" in each]
    pods = [spec["template"]["spec"] for spec in made if "template" in spec]
    with_volumes = [pod for pod in pods if "--work-dir=" in str(pod["containers"])]

    assert len(with_volumes) == 2
    for pod in with_volumes:
        assert pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"


@pytest.mark.parametrize("folder", [BASE, *OVERLAYS], ids=lambda folder: folder.name)
def test_each_file_belongs_to_its_kustomization(folder):
    (listing,) = documents(folder / "kustomization.yaml")
    named = {(folder / name).resolve() for name in listing["resources"]}

    assert all(path.exists() for path in named)
    here = {file for file in folder.glob("*.yaml") if file.name != "kustomization.yaml"}
    assert {path for path in named if path.is_file()} == {file.resolve() for file in here}


@pytest.fixture(scope="module")
def kubectl():
    """Runs kubectl, which asks no cluster anything here; returns the documents that it prints."""
    found = shutil.which("kubectl", path=f"{ROOT / '.kubectl'}:{os.environ['PATH']}")
    if found is None:
        pytest.skip("no kubectl: `make test-deploy` brings one")

    def run(*args):
        ran = subprocess.run(
            [found, *args], capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return [document for document in yaml.safe_load_all(ran.stdout) if document]

    return run


@pytest.mark.quick(1)
@pytest.mark.parametrize("folder", [BASE, *OVERLAYS], ids=lambda folder: folder.name)
def test_what_kustomize_makes_is_valid(folder, kubectl):
    rendered = kubectl("kustomize", str(folder))

    assert rendered
    for document in filter(of_kubernetes, rendered):
        kubernetes_validate.validate(document, VERSIONS[-1], strict=True)


def test_an_overlay_like_that_of_the_page_has_what_it_says(kubectl, tmp_path):
    (overlay,) = (text for text in page_blocks("yaml") if "kind: Kustomization" in text)
    (tmp_path / "mine").mkdir()
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    (tmp_path / "mine" / "kustomization.yaml").write_text(overlay)

    rendered = kubectl(
        "kustomize", "--load-restrictor=LoadRestrictionsNone", str(tmp_path / "mine")
    )

    (workers,) = [each for each in rendered if each["kind"] == "Deployment"]
    assert workers["spec"]["replicas"] == 8
    assert workers["metadata"]["namespace"] == "data"
    (container,) = workers["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/penstock:0.1"


def test_the_pod_of_the_page_is_valid():
    (pod,) = (yaml.safe_load(text) for text in page_blocks("yaml") if "kind: Pod" in text)

    kubernetes_validate.validate(pod, VERSIONS[-1], strict=True)


def test_the_secrets_of_the_page_are_those_that_pods_mount(kubectl, tmp_path):
    made(tmp_path / "keys")
    commands = [
        line.split()[1:]
        for text in page_blocks("sh")
        for line in text.splitlines()
        if line.startswith("kubectl") and "create secret" in line and "dry-run" not in line
    ]
    secrets = {}
    for command in commands:
        here = [word.replace("=keys/", f"={tmp_path}/keys/") for word in command]
        (secret,) = kubectl(*here, "--dry-run=client", "--output=yaml")
        secrets[secret["metadata"]["name"]] = set(secret["data"])

    mounted = {
        volume["secret"]["secretName"]
        for template in templates().values()
        for volume in template["spec"]["volumes"]
        if "secret" in volume
    }
    assert mounted | {"penstock-trainer", "penstock-operator"} == set(secrets)
    assert all({"ca.crt", "token"} <= files for files in secrets.values())


def test_to_change_keys_replaces_the_secret_of_each_pod(kubectl, tmp_path):
    made(tmp_path / "keys")
    text = (DOCS / "how-to" / "deploying-on-kubernetes.md").read_text()
    lines = text.partition("## Change keys")[2].splitlines()
    replaced = set()
    for line in lines:
        if line.startswith("kubectl"):
            made_by, _, taken_by = line.replace("=keys/", f"={tmp_path}/keys/").partition(" | ")
            (secret,) = kubectl(*made_by.split()[1:])
            assert taken_by == "kubectl replace --filename -"
            replaced.add(secret["metadata"]["name"])
    assert replaced == {"penstock-dispatcher", "penstock-worker", "penstock-trainer"}


FIELDS = {"port", "path", "scheme", "tlsConfig", "authorization"}
"""Of an endpoint of a PodMonitor, in version v1 of the Prometheus operator."""


def monitors():
    return resources(FOLDER / "overlays" / "monitored")


def test_the_monitors_choose_the_pods_and_ports_that_there_are():
    for monitor in monitors():
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        (chosen,) = (
            each for each in templates().values() if wanted <= each["metadata"]["labels"].items()
        )
        ports = {port["name"] for each in chosen["spec"]["containers"] for port in each["ports"]}
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        assert endpoint["port"] in ports
        assert endpoint.keys() == FIELDS
        assert endpoint["tlsConfig"].keys() == {"ca", "serverName"}
        assert monitor["apiVersion"] == "monitoring.coreos.com/v1"


def test_pods_have_no_annotations_that_cannot_work_with_tls_and_a_token():
    assert not [each for each in templates().values() if "annotations" in each["metadata"]]


def test_pods_log_their_starts_and_stops():
    for template in templates().values():
        for container in template["spec"]["containers"]:
            assert {"name": "PENSTOCK_LOG", "value": "INFO"} in container["env"]


def scraped(monitor, keys, port):
    """Return what a monitor's endpoint gives who asks as it says, with the files of *keys*."""
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    secrets = {"penstock-operator": keys / "operator"}
    ca, token = endpoint["tlsConfig"]["ca"]["secret"], endpoint["authorization"]["credentials"]
    trusting = ssl.create_default_context(cafile=secrets[ca["name"]] / ca["key"])
    bearer = (secrets[token["name"]] / token["key"]).read_text().strip()
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), SECONDS)) as plain:
        name = endpoint["tlsConfig"]["serverName"]
        with trusting.wrap_socket(plain, server_hostname=name) as secure:
            secure.sendall(
                f"GET {endpoint['path']} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
                f"Authorization: {endpoint['authorization']['type']} {bearer}\r\n"
                "Connection: close\r\n\r\n".encode()
            )
            return b"".join(iter(lambda: secure.recv(1 << 16), b"")).decode()


@pytest.mark.parametrize("monitor", monitors(), ids=lambda monitor: monitor["metadata"]["name"])
def test_a_monitor_gets_the_metrics_by_tls_and_token(monitor, tmp_path):
    keys, (http, worker_http) = made(tmp_path / "keys"), free_ports(2)
    of_dispatcher = DispatcherConfig(credentials=str(keys / "dispatcher"), http_port=http)
    with DispatchServer(of_dispatcher) as dispatcher:
        of_worker = WorkerConfig(
            dispatcher.address, credentials=str(keys / "worker"), http_port=worker_http
        )
        with WorkerServer(of_worker):
            of_workers = monitor["metadata"]["name"] == "penstock-worker"
            answer = scraped(monitor, keys, worker_http if of_workers else http)

    assert answer.startswith("HTTP/1.1 200")
    assert "penstock_build_info" in answer


def test_whatever_chooses_pods_chooses_some():
    labels = [template["metadata"]["labels"].items() for template in templates().values()]
    chosen = []
    for each in resources(BASE):
        match each["kind"]:
            case "Service":
                chosen.append(each["spec"]["selector"])
            case "Deployment" | "StatefulSet" | "PodDisruptionBudget":
                chosen.append(each["spec"]["selector"]["matchLabels"])
            case "NetworkPolicy":
                chosen.append(each["spec"]["podSelector"]["matchLabels"])
    assert len(chosen) >= 6
    assert all(any(wanted.items() <= has for has in labels) for wanted in chosen)


@pytest.mark.parametrize(("template", "container"), list(containers()))
def test_a_container_may_do_little(template, container):
    spec, security = template["spec"], container["securityContext"]

    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"]
    assert security["readOnlyRootFilesystem"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert not security["allowPrivilegeEscalation"]
    assert "--insecure" not in container["args"]
    secret = next(volume for volume in spec["volumes"] if "secret" in volume)["secret"]
    assert secret["defaultMode"] & 0o007 == 0


def test_a_worker_has_longer_to_end_than_it_drains():
    spec = templates()["penstock-worker"]["spec"]
    (drain,) = [arg for arg in spec["containers"][0]["args"] if arg.startswith("--drain=")]

    assert float(drain.partition("=")[2]) + 5 <= spec["terminationGracePeriodSeconds"]


# --- the commands, with folders and ports of this machine in the place of a pod's ---


class Pod:
    """A container's command as a process, and its probes."""

    def __init__(self, container, replaced, log):
        self._container, self._replaced = container, replaced
        args = [self._here(arg) for arg in container["args"]]
        variables = {
            each["name"]: self._here(each.get("value", "127.0.0.1"))
            for each in container.get("env", ())
        }
        args = [arg.replace("$(POD_IP)", variables.get("POD_IP", "")) for arg in args]
        command = [Path(sys.executable).parent / "penstock", *args]
        self.log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                command, env=os.environ | variables, stdout=out, stderr=subprocess.STDOUT
            )

    def _here(self, text):
        for given, here in self._replaced.items():
            text = text.replace(given, here)
        return text

    def probe(self, kind):
        """Return the status that a probe of the manifest gets, or None where nothing answers."""
        asked = self._container[f"{kind}Probe"]["httpGet"]
        (port,) = (
            str(each["containerPort"])
            for each in self._container["ports"]
            if each["name"] == asked["port"]
        )
        port = self._here(f"--http-port={port}").partition("=")[2]
        url = f"{asked['scheme'].lower()}://127.0.0.1:{port}{asked['path']}"
        trusting = ssl.create_default_context()
        trusting.check_hostname = False
        trusting.verify_mode = ssl.CERT_NONE  # as a kubelet asks
        try:
            with urllib.request.urlopen(url, timeout=5, context=trusting) as answer:
                return answer.status
        except urllib.error.HTTPError as exc:
            exc.close()
            return exc.code
        except OSError:
            return None

    def wait_until(self, kind):
        deadline = time.monotonic() + SECONDS
        while (seen := self.probe(kind)) != 200:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, f"{kind}: {seen}\n{self.log.read_text()}"
            time.sleep(0.05)

    def terminate(self, seconds):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)


@pytest.fixture
def pods():
    started = []

    def start(*args):
        started.append(Pod(*args))
        return started[-1]

    yield start
    for pod in started:
        with contextlib.suppress(OSError):
            pod.process.kill()
        pod.process.wait(SECONDS)


@pytest.mark.slow
@pytest.mark.xdist_group("clusters")
def test_the_commands_make_a_cluster_that_trains_and_ends_in_time(pods, tmp_path):
    keys = made(tmp_path / "keys")
    grpc, http, worker_http = map(str, free_ports(3))
    specs = {name: template["spec"] for name, template in templates().items()}
    (of_dispatcher,) = specs["penstock-dispatcher"]["containers"]
    (of_worker,) = specs["penstock-worker"]["containers"]
    journal = {"/var/lib/penstock": str(tmp_path / "journal"), "--port=7000": f"--port={grpc}"}

    dispatcher = pods(
        of_dispatcher,
        journal | {"/etc/penstock": str(keys / "dispatcher"), "8080": http},
        tmp_path / "dispatcher.log",
    )
    worker = pods(
        of_worker,
        {
            "penstock-dispatcher:7000": f"127.0.0.1:{grpc}",
            "--port=7001": "--port=0",
            "/etc/penstock": str(keys / "worker"),
            "8080": worker_http,
        },
        tmp_path / "worker.log",
    )
    for pod in (dispatcher, worker):
        for kind in ("startup", "liveness", "readiness"):
            pod.wait_until(kind)

    far = (
        Dataset.range(1000)
        .map(lambda x: 2 * x)
        .distribute(
            "distributed_epoch", f"grpcs://127.0.0.1:{grpc}", credentials=str(keys / "trainer")
        )
    )
    assert sum(map(int, far)) == 999_000

    assert worker.terminate(specs["penstock-worker"]["terminationGracePeriodSeconds"]) == 0
    assert dispatcher.terminate(specs["penstock-dispatcher"]["terminationGracePeriodSeconds"]) == 0
