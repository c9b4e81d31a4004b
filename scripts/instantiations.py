#!/usr/bin/env python3
"""What one source file instantiates does not grow unseen.

instantiations.py MAX CLANG++ [FLAG]...

Counts the functions that clang++ emits, unoptimised, for a file that includes <b10/transceiver.hpp> and
instantiates all of b10::Transceiver over Loopback: B10's own and those of the standard library that
its types bring in. Unlike seconds the number is the same at each run. Exit status 1: more than MAX.
"""
import pathlib
import subprocess
import sys
import tempfile

SOURCE = """#include <b10/transceiver.hpp>
template class b10::BasicTransceiver<b10::staging::SharedHost<>, b10::tag::Hashed,
                                     b10::completion::CopyEvent, b10::quarantine::Ttl<120>,
                                     b10::transport::Loopback>;
"""


def functions(compiler):
    with tempfile.TemporaryDirectory() as folder:
        file, out = pathlib.Path(folder) / "one.cpp", pathlib.Path(folder) / "one.o"
        file.write_text(SOURCE, encoding="utf-8")
        subprocess.run([*compiler, "-std=c++20", "-O0", "-c", file, "-o", out], check=True)
        symbols = subprocess.run(["nm", out], check=True, capture_output=True, text=True).stdout
    return sum(line.split()[-2] in "TtW" for line in symbols.splitlines() if len(line.split()) == 3)


def main():
    most, count = int(sys.argv[1]), functions(sys.argv[2:])
    print(f"{count} functions for one transceiver, at most {most}")
    if count > most:
        print("If they are worth it, raise the limit in tests/static/CMakeLists.txt and say why in the "
              "commit; `nm -C` shows which.")
    return count > most


if __name__ == "__main__":
    sys.exit(main())
