#!/usr/bin/env python3
"""Checks the rules of the project that no compiler checks.

tidy.py ROOT         checks the tree, prints `file:line: rule: what`, exits 1 if there is anything
tidy.py --self-test  shows that each rule finds its fault, and nothing in a clean tree
"""

import re
import sys
import tempfile
from pathlib import Path

COLUMNS_MAX = 100
HEADER_LINES_MAX = 400
FUNCTION_LINES_MAX = 70

AXES = ("tag_scheme", "slicing", "copy_engine", "staging", "completion", "quarantine", "transport")
UMBRELLAS = ("b10/transceiver.hpp", "b10/transceiver_fwd.hpp", "b10/policy_set.hpp")
# A policy may use a helper of its own axis; staging is made of slicing and copy.
AXES_OF_POLICY = {"staging": ("staging", "slicing", "copy")}
CPP = (".hpp", ".cuh", ".cpp", ".cu")
FOLDERS = ("include", "policies", "kernels", "tests", "bench", "examples")


class Source:
    """One C++ file: its lines as they are, and its text with comments and string contents blanked."""

    def __init__(self, root, path):
        self.path = path.relative_to(root).as_posix()
        self.raw = path.read_text(encoding="utf-8")
        self.code = blank(self.raw)
        self.top = self.path.split("/")[0]
        self.is_header = path.suffix in (".hpp", ".cuh") and self.top in FOLDERS[:3]

    def includes(self):
        for number, line in enumerate(self.raw.splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
            if match:
                yield number, match[1]

    def line_of(self, position):
        return self.code.count("\n", 0, position) + 1


def blank(text):
    """Replaces comments and the insides of literals by spaces; keeps every newline."""
    token = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)

    def spaces(match):
        if match[0][0] == "'" and text[max(match.start() - 1, 0)].isalnum():
            return match[0]  # a digit separator, 1'000
        quote = match[0][0] if match[0][0] in "\"'" else " "
        body = re.sub(r"[^\n]", " ", match[0])
        return quote + body[1:-1] + quote if len(body) > 1 else body

    return token.sub(spaces, text)


# --- the rules: each takes (source, tree) and yields (line, what) --------------------------------


def columns(source, tree):
    """lines have at most 100 columns"""
    for number, line in enumerate(source.raw.splitlines(), 1):
        if len(line) > COLUMNS_MAX:
            yield number, f"{len(line)} columns, at most {COLUMNS_MAX}"


def header_length(source, tree):
    """headers have at most 400 lines"""
    count = source.raw.count("\n")
    if source.is_header and count > HEADER_LINES_MAX:
        yield count, f"{count} lines, at most {HEADER_LINES_MAX}: one concept per file"


def function_length(source, tree):
    """functions have at most 70 lines"""
    for first, last in functions(source):
        if last - first + 1 > FUNCTION_LINES_MAX:
            yield first, f"a function of {last - first + 1} lines, at most {FUNCTION_LINES_MAX}"


def functions(source):
    """(first line, last line) of each outermost function body, by its braces."""
    opened = []  # kinds of the open braces
    start = None
    after_function = False
    begin = 0
    for match in re.finditer(r"[{};]", source.code):
        head = source.code[begin:match.start()].strip()
        begin = match.end()
        if match[0] == ";":
            after_function = False
        elif match[0] == "{":
            scope = re.search(r"\b(namespace|class|struct|union|enum|extern|concept)\b", head)
            # `Name() : member{1}, other{2} {`: the body follows the member initialisers.
            body = after_function and (head == "" or head[0] == ",")
            is_function = not scope and ("(" in head or body)
            if is_function and "function" not in opened:
                start = source.line_of(match.start())
            opened.append("function" if is_function else "scope")
        elif opened:
            kind = opened.pop()
            after_function = kind == "function"
            if kind == "function" and "function" not in opened:
                yield start, source.line_of(match.start())


def pragma_once(source, tree):
    """headers start with #pragma once"""
    if source.is_header and not re.match(r"\s*#pragma once\b", source.code):
        yield 1, "no #pragma once"


LIBRARIES = re.compile(r"(uc[pst]|openssl|cuda|cub|thrust|boost)([/_.]|$)")


def closure(tree, name):
    """`name` and every header that it brings in, as spelled in the includes."""
    seen, waiting = set(), [name]
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        for root in ("include", "policies"):
            if (tree / root / each).is_file():
                waiting += [n for _, n in Source(tree, tree / root / each).includes()]
    return seen


def core_dependencies(source, tree):
    """core/ and session/ include no policy, no umbrella header, no UCX, no CUDA"""
    if not re.match(r"include/b10/(core|session)/", source.path):
        return
    for number, name in source.includes():
        if LIBRARIES.match(name):
            yield number, f"<{name}> belongs in a policy"
        elif name in UMBRELLAS or (tree / "policies" / name).exists():
            yield number, f"<{name}>: core knows concepts only"
        elif name.startswith("b10/session/") and "/core/" in source.path:
            yield number, f"<{name}>: sessions stand on core, not the other way"


def is_axis(source):
    match = re.match(r"include/b10/(\w+)\.hpp$", source.path)
    return match and match[1] in AXES


def axis_dependencies(source, tree):
    """axis headers bring in no core, no policy and no library"""
    if is_axis(source):
        for number, name in source.includes():
            for each in sorted(closure(tree, name)):
                if re.match(r"b10/(core|session)/", each) or (tree / "policies" / each).exists():
                    yield number, f"<{name}> brings in <{each}>: axes stand below everything"
                elif LIBRARIES.match(each):
                    yield number, f"<{name}> brings in <{each}>, which belongs in a policy"


def axis_compile_time(source, tree):
    """axis headers do not bring in <functional>, <iostream> or <chrono>"""
    if is_axis(source):
        for number, name in source.includes():
            for each in sorted(closure(tree, name) & {"functional", "iostream", "chrono"}):
                yield number, f"<{name}> brings in <{each}>"


def policy_dependencies(source, tree):
    """policies include axis headers, types and helpers of their own axis"""
    match = re.match(r"policies/b10/(\w+)/", source.path)
    if not match:
        return
    own = AXES_OF_POLICY.get(match[1], (match[1],))
    for number, name in source.includes():
        if (tree / "policies" / name).exists():
            if name.split("/")[1] not in own:
                yield number, f"<{name}>: a policy of another axis"
        elif name in UMBRELLAS or any(n.startswith(("b10/core/", "b10/session/"))
                                      for n in closure(tree, name)):
            yield number, f"<{name}>: policies know axis headers and types only"


def model_is_checked(source, tree):
    """a policy's header ends with static_assert(Concept<Model>)"""
    if source.top == "policies" and re.search(r"\bstring_view name =", source.code):
        if "static_assert(" not in source.code:
            yield 1, "add: static_assert(Concept<Model>);"


def mutable_statics(source, tree):
    """headers hold no mutable static"""
    if not source.is_header:
        return
    pattern = r"(?:^|[;{}])\s*((?:static|thread_local|inline)\b[^;{}=()]*)[;{=]"
    # A loop by hand, because one match may end in the character that the next one starts with.
    position = 0
    while match := re.compile(pattern, re.M).search(source.code, position):
        position = match.end() - 1
        text = match[1]
        if re.search(r"\b(namespace|constexpr|consteval|class|struct|operator|friend)\b", text):
            continue
        if re.search(r"\bconst\b", text) and not re.search(r"\bconst\s*\*\s*\w+\s*$", text):
            continue
        yield source.line_of(match.start(1)), f"'{' '.join(text.split())}' is a mutable static"


def macros(source, tree):
    """macros in headers are named B10_SOMETHING, never B10"""
    for match in re.finditer(r"^\s*#\s*define\s+(\w+)", source.code, re.M):
        if match[1] == "B10" or (source.is_header and not match[1].startswith("B10_")):
            yield source.line_of(match.start(1)), f"macro {match[1]}"


def wall_clock(source, tree):
    """time never comes from the wall clock"""
    pattern = (r"\b(system_clock|high_resolution_clock|gettimeofday|CLOCK_REALTIME)\b"
               r"|(?<![\w.>])(?:std\s*::\s*)?time\s*\(\s*(?:nullptr|NULL|0|&)")
    for match in re.finditer(pattern, source.code):
        yield source.line_of(match.start()), f"'{match[0]}': use steady time"


def sleeps(source, tree):
    """headers and tests never sleep for a length of time"""
    if source.is_header or source.top == "tests":
        for match in re.finditer(r"\b(this_thread::sleep_\w+|usleep|nanosleep)\b", source.code):
            yield source.line_of(match.start()), f"{match[0]}: wait for the event itself"


def leftovers(source, tree):
    """no notes to finish something later"""
    for match in re.finditer(r"\b(TODO|FIXME|XXX|HACK)\b", source.raw):
        yield source.raw.count("\n", 0, match.start()) + 1, match[0]


RULES = (columns, header_length, function_length, pragma_once, core_dependencies,
         axis_dependencies, axis_compile_time, policy_dependencies, model_is_checked,
         mutable_statics, macros, wall_clock, sleeps, leftovers)


def unlisted_tests(root):
    """every tests/*_test.cpp is named in tests/CMakeLists.txt"""
    listed = root / "tests" / "CMakeLists.txt"
    text = listed.read_text(encoding="utf-8") if listed.exists() else ""
    for path in sorted((root / "tests").rglob("*_test.cpp")):
        name = path.relative_to(root / "tests").as_posix()
        if not re.search(rf"(?m)^\s*{re.escape(name)}\b", text):
            yield f"tests/{name}:1: unlisted_tests: not named in tests/CMakeLists.txt"


def check(root):
    findings = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in CPP:
                continue
            source = Source(root, path)
            for rule in RULES:
                for line, what in rule(source, root):
                    findings.append(f"{source.path}:{line}: {rule.__name__}: {what}")
    return findings + list(unlisted_tests(root))


# --- self-test -----------------------------------------------------------------------------------

H = "#pragma once\n"
CLEAN = {
    "include/b10/types.hpp": H + "inline constexpr int limit = 1'000;\n"
                                 'inline const char* text() { return "TIME system_clock"; }\n'
                                 "inline namespace v1 {\nstruct S { static constexpr int n = 1; };\n}\n",
    "include/b10/staging.hpp": H + "#include <b10/types.hpp>\n",
    "include/b10/transceiver.hpp": H + "#include <b10/core/lane.hpp>\n#include <b10/staging/host.hpp>\n",
    "include/b10/core/lane.hpp": H + "#include <b10/staging.hpp>\n"
                                     "inline bool timeout(int time) { return time > 0; }\n",
    "policies/b10/staging/host.hpp": H + "#include <b10/staging.hpp>\n#include <b10/copy/memcpy.hpp>\n"
                                         'struct Host { static constexpr std::string_view name = "x"; };\n'
                                         "static_assert(b10::Staging<Host>);\n",
    "policies/b10/copy/memcpy.hpp": H + "#include <b10/types.hpp>\n",
    "tests/host_test.cpp": "static int calls = 0;\n",
    "tests/CMakeLists.txt": "b10_test_program(b10_tests TESTS\n  host_test.cpp)\n",
}
FAULTS = {
    "columns": [("include/b10/a.hpp", H + "//" + "x" * 99 + "\n")],
    "header_length": [("include/b10/a.hpp", H + "//\n" * 400)],
    "function_length": [
        ("include/b10/a.hpp", H + "inline void f() {\n" + "  f();\n" * 69 + "}\n"),
        ("include/b10/a.hpp", H + "S::S() : a{1}, b{2} {\n" + "  if (a) { f(); }\n" * 69 + "}\n"),
    ],
    "pragma_once": [("include/b10/a.hpp", "int f();\n")],
    "core_dependencies": [
        ("include/b10/core/a.hpp", H + "#include <ucp/api/ucp.h>\n"),
        ("include/b10/core/a.hpp", H + "#include <cuda_runtime.h>\n"),
        ("include/b10/core/a.hpp", H + "#include <b10/staging/host.hpp>\n"),
        ("include/b10/core/a.hpp", H + "#include <b10/transceiver.hpp>\n"),
        ("include/b10/core/a.hpp", H + "#include <b10/session/a.hpp>\n"),
    ],
    "axis_dependencies": [
        ("include/b10/types.hpp", H + "#include <b10/core/lane.hpp>\n"),
        ("include/b10/slicing.hpp", H + "#include <b10/staging/host.hpp>\n"),
        ("include/b10/slicing.hpp", H + "#include <boost/hana.hpp>\n"),
    ],
    "axis_compile_time": [
        ("include/b10/slicing.hpp", H + "#include <functional>\n"),
        ("include/b10/types.hpp", H + "#include <chrono>\n"),
    ],
    "policy_dependencies": [
        ("policies/b10/copy/a.hpp", H + "#include <b10/core/lane.hpp>\n"),
        ("policies/b10/copy/a.hpp", H + "#include <b10/staging/host.hpp>\n"),
        ("policies/b10/copy/a.hpp", H + "#include <b10/transceiver.hpp>\n"),
    ],
    "model_is_checked": [("policies/b10/tag/a.hpp", H + 'static constexpr std::string_view name = "";\n')],
    "mutable_statics": [
        ("include/b10/a.hpp", H + "static int count;\n"),
        ("include/b10/a.hpp", H + "inline std::atomic<int> count{0};\n"),
        ("include/b10/a.hpp", H + "inline int f() {\n  static thread_local int n = 0;\n  return n;\n}\n"),
        ("include/b10/a.hpp", H + "inline char const* text = nullptr;\n"),
    ],
    "macros": [
        ("tests/a.cpp", "#define B10 1\n"),
        ("include/b10/a.hpp", H + "#define HELPER 1\n"),
    ],
    "wall_clock": [
        ("tests/a.cpp", "auto t = std::chrono::system_clock::now();\n"),
        ("bench/a.cpp", "auto t = std::time(nullptr);\n"),
        ("include/b10/a.hpp", H + "int f() { return clock_gettime(CLOCK_REALTIME, p); }\n"),
    ],
    "sleeps": [("tests/a.cpp", "void f() { std::this_thread::sleep_for(d); }\n")],
    "leftovers": [("include/b10/a.hpp", H + "// TO" + "DO: later\n")],
    "unlisted_tests": [("tests/a_test.cpp", "")],
}


def findings_of(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return check(Path(folder))


def self_test():
    wrong = [f"clean tree: {finding}" for finding in findings_of(CLEAN)]
    for rule in [rule.__name__ for rule in RULES] + ["unlisted_tests"]:
        if rule not in FAULTS:
            wrong.append(f"{rule}: has no fault to find")
        for name, text in FAULTS.get(rule, []):
            findings = findings_of({**CLEAN, name: text})
            if not any(f": {rule}: " in finding for finding in findings):
                wrong.append(f"{rule}: does not find {text!r} in {name}")
    return wrong


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    findings = self_test() if arguments[0] == "--self-test" else check(Path(arguments[0]).resolve())
    print("\n".join(findings) if findings else "tidy: nothing found")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
