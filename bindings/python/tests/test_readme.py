"""The examples of the texts run and say what they say."""

from __future__ import annotations

import doctest
import re
from typing import Any

import prorata
from conftest import ROOT


def blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def test_the_readme_s_examples_run() -> None:
    text = (ROOT / "bindings/python/README.md").read_text()
    here, _, _ = text.partition("## Figures and sweeps")
    names: dict[str, Any] = {}
    for block in blocks(here):
        exec(block, names)
    assert names["task"] == 0 and len(names["outcome"].tasks) == 5


def test_the_first_page_is_right() -> None:
    (block,) = blocks((ROOT / "README.md").read_text())
    call, said = block.strip().splitlines()[-1].rsplit("#", 1)
    names: dict[str, Any] = {}
    exec(block, names)
    assert eval(call, names) == eval(said)


def test_the_package_s_example_is_right() -> None:
    assert doctest.testmod(prorata) == (0, 3)
