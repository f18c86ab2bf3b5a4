#!/usr/bin/env python3
"""House rules that a compiler does not check.  `tools/tidy.py [ROOT]`; exits with 1 on a fault.

Each rule is a function over the tree that yields faults.  A line that must break a line rule says
so and why, on itself or the line before:  // tidy-allow(sleep): no signal to wait for
"""
import os
import pathlib
import re
import sys

# The arrows of ARCHITECTURE.md: what each module may include besides itself.  Tests of a module
# may include more; CMake's TEST_DEPS says what.
PORTS = ["store", "task_queue", "executor", "dispatcher", "control"]
STORES = ["store_memory", "store_sqlite", "store_postgres"]
EXECUTORS = ["executor_inline", "executor_process", "executor_queue", "executor_kubernetes"]
SUBJECTS = ["schedule", "package", "graph"]
ARROWS = {
    "base": [],
    "metrics": ["base"],
    "metrics_http": ["base"],
    "expr": ["base"],
    "model": ["base"],
    "spec": ["base", "expr", "model"],
    "author": ["base", "model"],
    **{port: ["base", "model"] for port in PORTS},
    "dispatcher": ["base", "model", "executor"],
    "token": ["base", "model", "executor"],
    "log_store": ["base", "model"],
    "log_store_sqlite": ["base", "model", "log_store"],
    "artifact_store": ["base"],
    "artifact_store_files": ["base", "artifact_store"],
    **{store: ["base", "model", "store", "task_queue"] for store in STORES},
    **{executor: ["base", "model", "executor", "log_store"] for executor in EXECUTORS},
    "executor_inline": ["base", "model", "executor", "author"],
    "executor_process": ["base", "model", "executor", "log_store", "artifact_store"],
    "worker_api": ["base", "model", "executor", "log_store"],
    "executor_queue": ["base", "model", "executor", "log_store", "artifact_store", "worker_api"],
    "dispatch": ["base", "model", "executor", "dispatcher", "task_queue"],
    "alert": ["base", "model", "store", "task_queue"],
    "engine": ["base", "metrics", "model", "store", "dispatcher", "executor", "control", "alert"],
    **{subject: ["base", "model", "spec", "expr", *PORTS] for subject in SUBJECTS},
    "worker": ["base", "model", "author", "executor", "executor_inline", "executor_process",
               "log_store", "artifact_store", "worker_api"],
    "job_worker": ["base", "author", "task_queue"],
    "rpc": ["base", "model", "executor", "log_store", "task_queue", "worker_api"],
    "server": ["base", "model", "control", "task_queue", "executor"],
}
ARROWS["runner"] = ["base", "metrics", "expr", "model", "author", "spec", *PORTS, "log_store",
                    "log_store_sqlite", "artifact_store", "artifact_store_files", *STORES,
                    *EXECUTORS, "token", "worker_api", "job_worker", "alert", "dispatch", "engine",
                    *SUBJECTS]
ARROWS["run_queue"] = ["base", "model", "runner", "spec", "task_queue"]
# Surfaces start and command over `control`, and read over the query half of `store`.
SURFACE = ["base", "metrics", "metrics_http", "expr", "model", "author", "spec", "control", "store",
           "alert", "task_queue", "log_store", "artifact_store", "runner", "token", "worker_api", "worker",
           "rpc", "run_queue", "server"]
ARROWS["cli"] = ARROWS["python"] = SURFACE
ARROWS["bin"] = [*SURFACE, "cli"]
# Whole-engine proofs name every adapter, like the runner.
ARROWS["store_sqlite_testing"] = ["base", "store"]
ARROWS["sim"] = [*ARROWS["runner"], "runner", "store_sqlite_testing"]

# Libraries that only their adapter may know.
LIBRARIES = {
    r"sqlite3\.h": ["store_sqlite", "log_store_sqlite"],
    r"libpq-fe\.h": ["store_postgres"],
    r"yaml\.h": ["spec"],
    r"yaml-cpp/": ["cli"],
    r"re2/": ["executor_process", "expr", "spec"],
    r"CLI/": ["cli", "bin"],
    r"openssl/": ["base", "token"],
    r"boost/(asio|beast)": ["metrics_http"],
    r"grpcpp/": ["rpc"],
}

# What the real adapters alone may call, and which they are (path prefixes below src/).
CALLS = {
    "clock": (r"\b\w+_clock::now\b|\bclock_gettime\(|\bgettimeofday\(|\btime\((nullptr|NULL|0)\)"
              r"|\bSystemClock\b",
              ["base/time.cc", "base/include/headworks/base/time.h", "base/log.cc",
               "executor_process/", "store_sqlite/", "runner/", "cli/", "bin/"]),
    "sleep": (r"\bsleep_(for|until)\(|\b(u|nano|clock_nano)?sleep\(",
              ["executor_process/", "bin/"]),
    "random": (r"\brandom_device\b|\bs?rand(om)?\(|\bgetrandom\(|\bmt19937|\bSystemRandom\b",
               ["base/random.cc", "base/include/headworks/base/random.h", "runner/", "cli/",
                "bin/"]),
    "getenv": (r"\b(secure_)?getenv\(|\bsetenv\(|\bputenv\(",
               ["executor_process/", "cli/", "bin/"]),
}
IN_TESTS_TOO = {"sleep"}

LONGEST_FILE = 999
LONGEST_ARCHITECTURE = 300
VAGUE = {"util", "utils", "common", "helper", "helpers", "manager", "managers", "misc"}
UNFINISHED = r"\b(TODO|FIXME|XXX|HACK)\b|(?i:\b(not implemented|unimplemented|placeholder)\b)"
FOREIGN_PATH = r"(?<![\w.$}~*-])/(srv|root|home/\w+)/\w"
SKIPPED = {".git", "build", "node_modules", "__pycache__"}
TEXT = (".cc", ".h", ".cmake", ".txt", ".py", ".md", ".yaml", ".yml", ".json", ".proto", "")


class Tree:
    """The source files below `root`, read once."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.files = []
        for folder, folders, names in os.walk(self.root):
            folders[:] = sorted(f for f in folders if f not in SKIPPED)
            self.files += [os.path.relpath(os.path.join(folder, n), self.root)
                           for n in sorted(names) if n not in SKIPPED]
        self._lines = {}

    def lines(self, name):
        if name not in self._lines:
            self._lines[name] = (self.root / name).read_text(errors="replace").splitlines()
        return self._lines[name]

    def cxx(self):
        return [f for f in self.files if f.startswith("src/") and f.endswith((".cc", ".h"))]


def module_of(name):
    return name.split("/")[1]


def is_test(name):
    """Tests, and the suites that several adapters' tests share."""
    return any(f"/{part}/" in name for part in ("tests", "testing", "conformance"))


def allowed_here(lines, index, rule):
    """Whether the line, or the one before, carries a reasoned tidy-allow for `rule`."""
    mark = re.compile(rf"tidy-allow\({rule}\): \S")
    return any(mark.search(line) for line in lines[max(index - 1, 0):index + 1])


def matches(tree, name, pattern, rule):
    """(line number, text) of each match that no tidy-allow covers."""
    lines = tree.lines(name)
    for index, line in enumerate(lines):
        found = re.search(pattern, line)
        if found and not allowed_here(lines, index, rule):
            yield index + 1, found.group()


def file_size(tree):
    for name in tree.files:
        if name.startswith("src/") and len(tree.lines(name)) > LONGEST_FILE:
            yield f"{name}: {len(tree.lines(name))} lines; it does two things, part them"
    architecture = "ARCHITECTURE.md"
    if architecture in tree.files and len(tree.lines(architecture)) > LONGEST_ARCHITECTURE:
        yield f"{architecture}: over {LONGEST_ARCHITECTURE} lines"


def vague_names(tree):
    for name in tree.files:
        words = set(re.split(r"[/_.\-]", name.lower()))
        for word in sorted(words & VAGUE):
            yield f"{name}: '{word}' does not say what is in it"


def direct_calls(tree):
    for name in tree.cxx():
        for rule, (pattern, adapters) in CALLS.items():
            if is_test(name) and rule not in IN_TESTS_TOO:
                continue
            if any(name.startswith("src/" + adapter) for adapter in adapters):
                continue
            code = rf"^(?!\s*//).*?({pattern})"
            for line, _ in matches(tree, name, code, rule):
                yield f"{name}:{line}: {rule}: take it by constructor or argument"


def arrows(tree):
    for name in tree.cxx():
        module = module_of(name)
        if module not in ARROWS:
            yield f"{name}: module '{module}' is not in the table of arrows"
            continue
        if is_test(name):
            continue
        for number, line in enumerate(tree.lines(name), 1):
            # Generated ones (*.pb.h) are of the module's own protocol, whatever its package is called.
            found = re.match(r'\s*#\s*include\s+["<]headworks/(\w+)/(?!.*\.pb\.h)', line)
            if found and found[1] != module and found[1] not in ARROWS[module]:
                yield f"{name}:{number}: {module} may not include {found[1]}"


def adapter_libraries(tree):
    for name in tree.cxx():
        for pattern, modules in LIBRARIES.items():
            if module_of(name) in modules or is_test(name):
                continue
            for line, found in matches(tree, name, rf'#\s*include\s+["<]{pattern}', "library"):
                yield f"{name}:{line}: {found}: only {', '.join(modules)} may know it"


def header_guards(tree):
    for name in tree.cxx():
        if name.endswith(".h") and "#pragma once" not in tree.lines(name):
            yield f"{name}: #pragma once is missing"


def unfinished(tree):
    for name in tree.files:
        if os.path.splitext(name)[1] not in TEXT or name.startswith("tools/tidy"):
            continue
        for line, found in matches(tree, name, UNFINISHED, "unfinished"):
            yield f"{name}:{line}: '{found}': finish it or file it"


def foreign_paths(tree):
    for name in tree.files:
        if os.path.splitext(name)[1] not in TEXT or name.startswith("tools/tidy"):
            continue
        for line, found in matches(tree, name, FOREIGN_PATH, "path"):
            yield f"{name}:{line}: '{found}...': a path of one machine"


def listed_sources(tree):
    lists = {f: "\n".join(line.split("#")[0] for line in tree.lines(f))
             for f in tree.files if os.path.basename(f) == "CMakeLists.txt" or f.endswith(".cmake")}
    for name, text in lists.items():
        if re.search(r"\bfile\s*\(\s*GLOB", text, re.I) or "aux_source_directory" in text:
            yield f"{name}: sources are listed, never globbed"
    for name in tree.cxx():
        if name.endswith(".h") and (is_test(name) or "/include/" not in name):
            continue  # A private header stands and falls with the sources beside it.
        folder = os.path.dirname(name)
        while folder and f"{folder}/CMakeLists.txt" not in lists:
            folder = os.path.dirname(folder)
        owner = f"{folder}/CMakeLists.txt" if folder else None
        below = os.path.relpath(name, folder) if folder else name
        short = re.sub(r"(^|.*/)include/headworks/\w+/", r"\1", below)  # headworks_module()
        listed = "|".join(map(re.escape, {below, short}))
        if not owner or not re.search(rf"(^|[\s(])({listed})($|[\s)])", lists[owner]):
            yield f"{name}: no CMakeLists.txt lists it"


def links(tree):
    """Relative Markdown links lead to files of the tree."""
    for name in tree.files:
        if not name.endswith(".md"):
            continue
        fenced = False
        for number, line in enumerate(tree.lines(name), 1):
            if line.lstrip().startswith("```"):
                fenced = not fenced
            if fenced:
                continue
            for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", line):
                if "://" in target or target.startswith("mailto:"):
                    continue
                if not (tree.root / os.path.dirname(name) / target).exists():
                    yield f"{name}:{number}: link to {target}, which is not there"


RULES = [file_size, vague_names, direct_calls, arrows, adapter_libraries, header_guards,
         unfinished, foreign_paths, listed_sources, links]


def faults(root):
    tree = Tree(root)
    return [f"{fault} [{rule.__name__}]" for rule in RULES for fault in rule(tree)]


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    found = faults(root)
    print("\n".join(found) if found else f"tidy: {len(RULES)} rules hold")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
