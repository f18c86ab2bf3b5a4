#!/usr/bin/env python3
"""Runs the commands that the documentation shows.

tools/doc_commands.py --bin DIR [FILE ...]     (default: README.md, CONTRIBUTING.md, docs/**/*.md)

Fences with these info strings count; GitHub colours by the first word and ignores the rest:

  ```sh run            runs under bash -eu; must exit with 0
  ```sh run exit=1     must exit with exactly 1
  ```yaml file=a.yaml  is written to a.yaml before the next run
  ```text output       what the run before it printed; a line `...` stands for any lines, and
                       `...` within a line for any characters
  ```sh                is not run; scripts of this repository that it calls must exist

The runs of one document share one scratch folder, a store of its own (HEADWORKS_STORE) and a
copy of examples/.  DIR, where `headworks` was built, is first on PATH.
"""
import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
LIMIT_SECONDS = 60


@dataclasses.dataclass
class Block:
    line: int
    info: list
    text: str


def blocks(text):
    """The fenced blocks of a Markdown text."""
    found, start = [], None
    for number, line in enumerate(text.splitlines(), 1):
        if start is None and line.startswith("```"):
            start, info, body = number, line[3:].split(), []
        elif start is not None and line.rstrip() == "```":
            found.append(Block(start, info, "".join(b + "\n" for b in body)))
            start = None
        elif start is not None:
            body.append(line)
    if start is not None:
        raise ValueError(f"line {start}: a fence is not closed")
    return found


def output_matches(expected, actual):
    parts = []
    for line in expected.rstrip("\n").split("\n"):
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(re.escape(line.rstrip()).replace(re.escape("..."), ".*") + r"[ \t]*\n")
    return re.fullmatch("".join(parts), actual.rstrip("\n") + "\n") is not None


def missing_scripts(text):
    text = re.sub(r"(^|\s)#.*", "", text)  # comments are for people
    for word in re.findall(r"(?<![\w./-])(?:\./)?((?:tools|\.ci)/[\w./-]+)", text):
        if not os.access(TOP / word, os.X_OK):
            yield f"{word} is not an executable of this repository"


def option(info, name):
    for word in info:
        if word.startswith(name + "="):
            return word[len(name) + 1:]
    return None


def run_block(block, folder, environment):
    """(output, fault or None) of one `sh run` block."""
    wanted = int(option(block.info, "exit") or 0)
    try:
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", block.text], cwd=folder,
                              env=environment, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired as expired:
        printed = (expired.stdout or b"").decode(errors="replace")
        return printed, f"took more than {LIMIT_SECONDS} s"
    if done.returncode != wanted:
        return done.stdout, f"exited with {done.returncode}, not {wanted}"
    return done.stdout, None


def check_document(path, bin_folder):
    """Faults of one document; how many blocks ran."""
    faults, ran, output = [], 0, None
    with tempfile.TemporaryDirectory(prefix="headworks-docs-") as folder:
        if (TOP / "examples").is_dir():
            shutil.copytree(TOP / "examples", pathlib.Path(folder) / "examples")
        environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}",
                       "LANG": "C.UTF-8", "HEADWORKS_STORE": f"{folder}/store.db", "HOME": folder}
        for block in blocks(path.read_text()):
            fault = None
            name = option(block.info, "file")
            if name:
                target = pathlib.Path(folder) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(block.text)
            elif block.info[:2] == ["sh", "run"]:
                output, fault = run_block(block, folder, environment)
                ran += 1
            elif block.info[:2] == ["text", "output"]:
                if output is None:
                    fault = "no run stands before this output"
                elif not output_matches(block.text, output):
                    fault = "the output differs"
            elif block.info[:1] == ["sh"]:
                fault = "; ".join(missing_scripts(block.text)) or None
            if fault:
                faults.append(f"{path.name}:{block.line}: {fault}\n{block.text}"
                              + (f"--- printed:\n{output}" if output else ""))
    return faults, ran


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    if not os.access(options.bin / "headworks", os.X_OK):
        sys.exit(f"doc_commands: {options.bin}/headworks is not built")
    files = options.files or [TOP / "README.md", TOP / "CONTRIBUTING.md",
                              *sorted((TOP / "docs").rglob("*.md"))]
    faults, ran = [], 0
    for path in files:
        found, count = check_document(path, options.bin.resolve())
        faults += found
        ran += count
    print("\n".join(faults))
    print(f"doc_commands: {ran} blocks of {len(files)} documents ran, {len(faults)} faults")
    sys.exit(1 if faults or not ran else 0)


if __name__ == "__main__":
    main()
