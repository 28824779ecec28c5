"""The reference names everything that is public, and nothing else is named."""

import dataclasses
import importlib
import inspect
import os
import re
import shlex
import subprocess
import sys

import pytest
import typer

import loadtest.__main__
import penstock
import penstock_cluster
from penstock import errors, service
from penstock.dataset.dataset import Dataset
from penstock.executors.process_pool import ProcessSettings
from penstock.runtime import settings
from penstock.runtime.signals import ExitCode
from penstock.storage.cache_folder import FileCacheSettings
from penstock.wire import tracing
from penstock_cluster.cli.app import app
from penstock_dispatcher.config import DispatcherConfig
from penstock_worker import WorkerConfig
from tests.docs.pages import DOCS, PAGES, ROOT, blocks, name

REFERENCE = DOCS / "reference"
SETTINGS = (DispatcherConfig, WorkerConfig, ProcessSettings, FileCacheSettings)


def commands():
    """Return each command by its words: those of a group behind the group's name."""
    whole = typer.main.get_command(app)
    for group in whole.list_commands(None):
        made = whole.get_command(None, group)
        for word, inner in getattr(made, "commands", {"": made}).items():
            yield f"{group} {word}".strip(), inner


COMMANDS = dict(commands())


def directives():
    """What `:::` names in the reference."""
    for page in REFERENCE.glob("*.md"):
        yield from re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)


def resolved(path):
    module, _, last = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), last)
    except ModuleNotFoundError:
        return getattr(resolved(module), last)


def code():
    """All of the library's and the services' source."""
    files = [file for top in ("client", "services") for file in (ROOT / top).rglob("*.py")]
    return "".join(file.read_text() for file in files)


def public(kind):
    return {
        member
        for member, value in inspect.getmembers(kind)
        if not member.startswith("_") and (inspect.isroutine(value) or isinstance(value, property))
    }


def test_each_public_object_has_an_entry():
    wanted = {
        getattr(module, member)
        for module in (penstock, service, penstock_cluster)
        for member in module.__all__
        if inspect.isclass(getattr(module, member)) or callable(getattr(module, member))
    }

    shown = [resolved(path) for path in directives()]

    assert not [one.__name__ for one in wanted if one not in shown]


def test_each_method_of_a_dataset_has_an_entry_and_only_one():
    inside = "penstock.Dataset."
    listed = [path.removeprefix(inside) for path in directives() if path.startswith(inside)]

    assert sorted(listed) == sorted(public(Dataset))


def test_what_is_public_says_what_it_is():
    dumb = [
        f"{path}.{member}"
        for path in directives()
        for kind in [resolved(path)]
        if inspect.isclass(kind)
        for member in public(kind)
        if not issubclass(kind, BaseException) and not inspect.getdoc(getattr(kind, member))
    ]

    assert not dumb


def test_each_error_is_in_the_table_with_what_it_also_is():
    page = (REFERENCE / "errors.md").read_text()
    for kind in vars(errors).values():
        if inspect.isclass(kind) and issubclass(kind, errors.PenstockError):
            (row,) = re.findall(rf"^\| `{kind.__name__}` \|.*$", page, re.MULTILINE)
            for base in kind.__bases__:
                assert base is errors.PenstockError or f"`{base.__name__}`" in row
            assert kind.__doc__


def test_retryable_errors_are_those_that_are_named():
    kinds = [k for k in vars(errors).values() if inspect.isclass(k)]
    page = (REFERENCE / "errors.md").read_text()

    (said,) = re.findall(r"^`retryable` is true for (.*)$", page, re.MULTILINE)

    found = {k.__name__ for k in kinds if getattr(k, "retryable", False)}
    assert set(re.findall(r"`(\w+)`", said)) == found


@pytest.mark.parametrize("config", SETTINGS)
def test_each_setting_says_what_it_is(config):
    bases = (base for base in config.__mro__ if dataclasses.is_dataclass(base))
    source = "".join(map(inspect.getsource, bases))
    for field in dataclasses.fields(config):
        if field.name != "_":
            behind = rf"^    {field.name}: [^\n]*\n    \"\"\""
            among_attributes = rf"^        {field.name}: [a-z]"
            assert re.search(f"{behind}|{among_attributes}", source, re.MULTILINE), field.name


def test_all_that_is_read_from_variables_is_in_the_settings():
    page = (REFERENCE / "settings.md").read_text()
    read = set(re.findall(r"\bfrom_env\((\w+), ", code()))

    shown = re.findall(r"^::: (\S+)$", page, re.MULTILINE)

    assert [resolved(path) for path in shown] == list(SETTINGS)
    assert {kind.__name__ for kind in SETTINGS} >= read - {"cls"}


def test_each_variable_that_is_read_is_in_the_settings():
    page = (REFERENCE / "settings.md").read_text()
    fields = {
        settings.variable(field.name) for config in SETTINGS for field in dataclasses.fields(config)
    }

    read = {v.rstrip("_") for v in re.findall(r"\bPENSTOCK_[A-Z_]+", code())} - {"PENSTOCK"}

    assert not {variable for variable in read - fields if f"`{variable}`" not in page}


def test_each_variable_of_the_compose_file_is_in_its_page():
    page = (DOCS / "how-to" / "deploying-with-compose.md").read_text()
    for variable, default in re.findall(
        r"\$\{(\w+):-([^}]*)\}", (ROOT / "docker-compose.yml").read_text()
    ):
        assert f"| `{variable}` | " + (f"`{default}`" if default else "nothing") in page


def options(command):
    return {option for parameter in command.params for option in
            (*parameter.opts, *parameter.secondary_opts) if option.startswith("--")}  # fmt: skip


def loadtest_command():
    made = typer.Typer(add_completion=False)
    made.command()(loadtest.__main__.main)
    return typer.main.get_command(made)


def chapters():
    text = (REFERENCE / "command.md").read_text()
    for found in re.finditer(r"^## (p\S+ .*)\n([\s\S]*?)(?=^## |\Z)", text, re.MULTILINE):
        yield found[1], set(re.findall(r"`(--[\w-]+)`", found[2]))


def test_each_command_and_option_is_in_the_reference_and_nothing_else():
    shown = dict(chapters())
    wanted = {
        " ".join(
            [
                "penstock",
                command,
                *(p.metavar or p.name.upper() for p in made.params if not p.opts[0][0] == "-"),
            ]
        ): options(made)
        for command, made in COMMANDS.items()
    }
    wanted["python -m loadtest"] = options(loadtest_command())

    assert shown == wanted


def test_the_table_of_exit_codes_has_all_of_them():
    text = (REFERENCE / "command.md").read_text()
    table = text.partition("## Exit codes")[2].partition("\n## ")[0]

    assert [int(code) for code in re.findall(r"^\| (\d) \|", table, re.MULTILINE)] == list(ExitCode)


def test_the_known_variables_are_those_that_are_read():
    fields = {field.name for config in SETTINGS for field in dataclasses.fields(config)}
    read = re.findall(r"\"PENSTOCK_([A-Z_]*[A-Z])\"", code())

    assert {name for name in fields if name != "_"} <= settings.KNOWN
    assert {name.lower() for name in read} <= settings.KNOWN


def sh_commands():
    """Each command of a ``sh`` block, with its place."""
    for page in PAGES:
        for block in blocks(page):
            if block.kind == "sh":
                for line in block.text.replace("\\\n", " ").splitlines():
                    words = shlex.split(line, comments=True)
                    while words and re.match(r"\w+=", words[0]):
                        del words[0]
                    if words:
                        yield pytest.param(words, id=f"{name(page)}:{' '.join(words)}")


def check_call(command, words):
    """Check that a typer *command* has the options in *words*."""
    given = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert given <= options(command)


@pytest.mark.quick(3)
@pytest.mark.parametrize("words", list(sh_commands()))
def test_what_is_shown_and_cannot_run_here_exists(words):
    match words:
        case ["pip", "install", *_] | ["mkdir", *_]:
            pass
        case ["make", target, *settings]:
            makefile = (ROOT / "Makefile").read_text()
            assert re.search(rf"^{target}:", makefile, re.MULTILINE)
            assert all(f"$({setting.partition('=')[0]})" in makefile for setting in settings)
        case [_, "-m", ("build" | "venv" | "simulation") as module, *rest]:
            check_module(module, rest)
        case ["export", setting]:
            assert tracing.asked(dict([setting.split("=")]))
        case ["git", "tag", _] | ["/tmp/release/bin/pip", "install", _]:
            pass
        case ["/tmp/release/bin/penstock", command]:
            assert command in COMMANDS
        case ["srun" | "torchrun", *options, "penstock", "run", _] if all(
            option.startswith("--") or option.isdecimal() for option in options
        ):
            assert "run" in COMMANDS
        case ["penstock", "keys", command, *rest]:
            check_call(COMMANDS[f"keys {command}"], rest)
        case ["mpirun", "-x", setting, "penstock", "run", _]:
            assert setting.startswith("PENSTOCK_TARGET=")
            assert "run" in COMMANDS
        case ["penstock", command, *rest]:
            check_call(COMMANDS[command], rest)
        case ["python", "-m", "loadtest", *rest]:
            check_call(loadtest_command(), rest)
        case ["docker", "build", "--tag", _, *_] | ["docker", "push", _]:
            pass
        case ["kubectl", "--namespace", _, "exec", _, "--", "penstock", command, *rest]:
            check_call(COMMANDS[command], rest)
        case ["kubectl", *_]:  # tests/deploy runs what makes something
            assert KUBECTL & set(words)
        case ["docker", "compose", *rest]:
            check_compose(rest)
        case _:
            pytest.fail(f"nobody checks {words[0]}")


def check_module(module, words):
    """Check that ``python -m`` *module* has the options in *words*."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    command = [sys.executable, "-m", module, "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout
    assert {word for word in words if word.startswith("--")} <= set(re.findall(r"--[\w-]+", shown))


KUBECTL = {"apply", "create", "delete", "get", "label", "logs", "port-forward", "rollout", "taint"}
"""The commands of kubectl that pages use."""

COMPOSE = {
    "build": set(),
    "cp": set(),
    "down": {"--volumes", "--timeout"},
    "exec": set(),
    "kill": set(),
    "logs": {"--follow"},
    "ps": set(),
    "run": {"--entrypoint", "--no-deps", "--rm", "--volume", "--workdir"},
    "up": {"--build", "--detach", "--no-deps", "--no-recreate", "--scale"},
}
"""The commands of Compose that pages use, with the options."""


def check_compose(words):
    match words:
        case ["--profile", profile, *rest]:
            assert f"profiles: [{profile}]" in (ROOT / "docker-compose.yml").read_text()
            words = rest
    if words[0] == "cp":
        words = ["cp", words[1].partition(":")[0]]
    services = re.findall(r"^  (\w+):$", (ROOT / "docker-compose.yml").read_text(), re.MULTILINE)
    for program, check in (("loadtest", loadtest_command), ("penstock", None)):
        if program in words:
            at = words.index(program)
            check_call(check() if check else COMMANDS[words[at + 1]], words[at:])
            words = words[:at]
    if "demo" in words:
        check_call(COMMANDS["demo"], words[words.index("demo") :])
        words = words[: words.index("demo")]
    named = [word for word in words if word in services or word.partition("=")[0] in services]
    assert named or len(words) == 1
    assert {word for word in words if word.startswith("--")} <= COMPOSE[words[0]]


@pytest.mark.parametrize("command", COMPOSE)
def test_compose_has_the_options_that_pages_use(command):
    try:
        ran = subprocess.run(
            ["docker", "compose", command, "--help"], capture_output=True, text=True
        )
    except OSError:
        pytest.skip("there is no docker command")
    if "docker compose" not in ran.stdout:
        pytest.skip("docker has no compose plugin")

    assert set(re.findall(r"--[\w-]+", ran.stdout)) >= COMPOSE[command]
