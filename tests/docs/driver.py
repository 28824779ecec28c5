"""What the program of a page calls between its Python blocks: commands, and looks at the output."""

import doctest
import importlib.util
import io
import os
import re
import subprocess
import sys
from pathlib import Path

from pages import UP_LOG

_BLANK = r"[\s─━│┃┏┓┗┛┡┩┳╇┻┴├┤╭╮╰╯┌┐└┘┬┼]"
_TOKEN = re.compile(rf"(?P<any>\.\.\.)|(?P<number>\d[\d,.]*)|(?P<blank>{_BLANK}+)|.")


class _Tee(io.StringIO):
    def write(self, text):
        sys.__stdout__.write(text)
        return super().write(text)


sys.stdout = _Tee()


def matches(shown, printed):
    """Say whether *printed* is what is *shown*, but for numbers, white space, and ``...``.

    What is nothing but a number must be that.
    """
    if shown.strip().isdecimal():
        return shown.strip() == printed.strip()
    parts = []
    for token in _TOKEN.finditer(shown.strip()):
        if token["any"]:
            parts.append(r"[\s\S]*?")
        elif token["number"]:
            parts.append(r"[\d,.]+")
        elif token["blank"]:
            parts.append(f"{_BLANK}*")
        else:
            parts.append(re.escape(token[0]))
    return re.fullmatch("".join(parts), printed.strip()) is not None


def shows(place, text):
    """Check that what was printed since the last look is *text*."""
    printed = sys.stdout.getvalue()
    sys.stdout.seek(0)
    sys.stdout.truncate()
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    if not doctest.OutputChecker().check_output(text, printed, flags):
        sys.exit(f"{place} shows\n{text}\nbut this was printed:\n{printed}")


def console(place, commands):
    """Run *commands*, and check that each prints what is shown."""
    for command, shown in commands:
        if command.startswith("penstock up "):
            code, printed = 0, Path(os.environ[UP_LOG]).read_text()
        else:
            ran = subprocess.run(
                ["bash", "-c", command], stdout=-1, stderr=-2, text=True, timeout=60
            )
            code, printed = ran.returncode, ran.stdout
        if code:
            sys.exit(f"{place}: `{command}` ended with {code}:\n{printed}")
        if shown.strip() and not matches(shown, printed):
            sys.exit(f"{place}: `{command}` shows\n{shown}\nbut this was printed:\n{printed}")


def skips(needed):
    """Say whether a block that needs a package cannot run, as that cannot be imported.

    It may be installed without what it needs itself.
    """
    if importlib.util.find_spec(needed) is None:
        return True
    try:
        importlib.import_module(needed)
    except ImportError:
        return True
    return False
