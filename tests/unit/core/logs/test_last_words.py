"""The line of a program's last output that says why it failed."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.logs.last_words import last_words

FRAMES = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\n    ~~~~^^\n'

SAID = {
    "a prompt that was written as the program ended": (
        FRAMES + "EOFError: EOF when reading a line\nYour name: ",
        "EOFError: EOF when reading a line",
    ),
    "a prompt that the traceback follows in the same line": (
        "Your name: " + FRAMES + "EOFError: EOF when reading a line\n",
        "EOFError: EOF when reading a line",
    ),
    "a message of several lines": (
        FRAMES + "ValidationError: 1 error for X\nfield\n    For further information visit https://errors.example\n",
        "ValidationError: 1 error for X",
    ),
    "an error after another": (
        FRAMES
        + "KeyError: 'lr'\n\nDuring handling of the above exception, another exception occurred:\n\n"
        + FRAMES
        + "ValueError: no learning rate\n",
        "ValueError: no learning rate",
    ),
    "a traceback whose beginning is cut off": (
        'p/torch/nn.py", line 7, in f\n    x\n  File "m.py", line 9, in g\n    h()\nRuntimeError: CUDA error\nbye\n',
        "RuntimeError: CUDA error",
    ),
    "a mistake in the program's text": (
        "  File \"train.py\", line 1\n    print(\n         ^\nSyntaxError: '(' was never closed\n",
        "SyntaxError: '(' was never closed",
    ),
    "a rank before each line": (
        "".join(f"[rank1]: {line}\n" for line in (FRAMES + "ValueError: bad batch").splitlines())
        + "[rank0]:[W1] Warning: destroy_process_group() was not called\n",
        "ValueError: bad batch",
    ),
    "a launcher that only says that its program failed": (
        FRAMES
        + "ValueError: bad batch\n"
        + FRAMES
        + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        + "=" * 60
        + "\ntrain.py FAILED\n  traceback : To enable traceback see: https://pytorch.example\n"
        + "=" * 60,
        "ValueError: bad batch",
    ),
    "a group of errors": (
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "t.py", line 1, in <module>\n'
        "  |     raise group\n"
        "  | ExceptionGroup: two (2 sub-exceptions)\n"
        "  +-+---------------- 1 ----------------\n"
        "    | Traceback (most recent call last):\n"
        '    |   File "t.py", line 2, in f\n'
        "    |     raise ValueError\n"
        "    | ValueError: of one task\n"
        "    +------------------------------------\n",
        "ValueError: of one task",
    ),
    "a box around the traceback": (
        "╭──────────── Traceback (most recent call last) ────────────╮\n"
        "│ /x/train.py:3 in <module>                                 │\n"
        "│ ❱ 3 main()                                                │\n"
        "╰───────────────────────────────────────────────────────────╯\n"
        "ValueError: boxed\nlast\n",
        "ValueError: boxed",
    ),
    "no traceback": ("loading\nno such dataset\n-----\n", "no such dataset"),
    "a traceback long before the end": (
        FRAMES
        + "ValueError: was handled\n"
        + "".join(f"step {number}\n" for number in range(40))
        + "out of patience\n",
        "out of patience",
    ),
    "frames without an error": (FRAMES, "main()\n    ~~~~^^".splitlines()[0]),
    "nothing": ("", ""),
    "a rule alone": ("-----\n", ""),
}


@pytest.mark.parametrize("case", SAID)
def test_the_line_with_the_reason_is_found(case: str) -> None:
    said, why = SAID[case]
    assert last_words(said) == why


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("input('Your name: ')", "EOFError: EOF when reading a line"),
        ("def f():\n    raise ValueError('one\\ntwo')\nprint('loading')\nf()", "ValueError: one"),
        ("try:\n    {}['a']\nexcept KeyError:\n    open('/nowhere')", "FileNotFoundError: [Errno 2]"),
        ("import asyncio\nasync def f():\n    raise ValueError('x')\nasyncio.run(f())", "ValueError: x"),
        ("raise ExceptionGroup('all', [ValueError('a'), TypeError('b')])", "ExceptionGroup: all"),
        ("import sys\nsys.exit('no such dataset')", "no such dataset"),
        ("assert 1 == 2, 'they differ'", "AssertionError: they differ"),
    ],
)
def test_the_reason_is_found_in_python_tracebacks(program: str, why: str) -> None:
    """stdout and stderr share a pipe, as in a container."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert last_words(done.stdout[-2048:]).startswith(why)


@given(st.text(max_size=400), st.lists(st.sampled_from([FRAMES, "ValueError: x\n", "  | ", "[rank0]: ", "│", "\n"])))
def test_any_output_gives_one_line(text: str, parts: list[str]) -> None:
    """No exception is raised."""
    found = last_words("".join([text, *parts]))
    assert len(found.splitlines()) <= 1
