#!/usr/bin/env python3
"""Compiles the code that a page shows.

docs_check.py PAGE.md COMPILER [FLAG]...   the page's ```cpp blocks, in order, as one source file
docs_check.py --self-test COMPILER

Blocks in other fences are pieces or output and are not compiled. A page without a ```cpp block fails:
it would be checked by nobody.
"""
import pathlib
import re
import subprocess
import sys
import tempfile


def source_of(page):
    """The blocks with their own line numbers, so that an error names the page's line."""
    text = page.read_text(encoding="utf-8")
    parts = []
    for match in re.finditer(r"^```cpp\n(.*?)^```$", text, re.S | re.M):
        line = text.count("\n", 0, match.start(1)) + 1
        parts.append(f'#line {line} "{page}"\n{match[1]}')
    return "".join(parts)


def check(page, compiler):
    source = source_of(page)
    if not source:
        print(f"{page}: no ```cpp block")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "page.cpp"
        file.write_text(source, encoding="utf-8")
        return subprocess.run([*compiler, "-std=c++20", "-fsyntax-only", file], check=False).returncode


def self_test(compiler):
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "page.md"
        for text, good in (("```cpp\nint x = 1;\n```\n", True), ("```cpp\nint x = y;\n```\n", False),
                           ("```\nint x = y;\n```\n", False),
                           ("```cpp\nint x = 1;\n```\nand\n```cpp\nint& z = x;\n```\n", True)):
            page.write_text(text, encoding="utf-8")
            assert (check(page, compiler) == 0) == good, text


if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        sys.exit(self_test(sys.argv[2:]))
    sys.exit(check(pathlib.Path(sys.argv[1]), sys.argv[2:]))
