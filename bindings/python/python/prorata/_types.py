"""Types of arguments."""

from __future__ import annotations

from os import PathLike
from typing import Any, TypeAlias

Description: TypeAlias = dict[str, Any]
PathArgument: TypeAlias = str | PathLike[str]
