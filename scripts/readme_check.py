#!/usr/bin/env python3
"""The README's first program is a piece of the quickstart, so what it shows compiles and runs."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
shown = re.search(r"```cpp\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
source = (ROOT / "examples/quickstart/quickstart.cpp").read_text()
if not shown or shown.group(1) not in source:
    sys.exit("README.md: its first ```cpp block is not a piece of examples/quickstart/quickstart.cpp")
print("README.md shows the quickstart")
