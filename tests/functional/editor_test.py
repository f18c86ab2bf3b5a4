"""The JSON Schema in an editor: the language server behind VS Code's YAML extension reads it.

editor_test.py PROGRAM FOLDER: npm installs the server into FOLDER, once, as editor/package-lock.json
pins it.
"""
import hashlib
import json
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import threading
import unittest

import harness
from harness import PATIENCE, ROOT, Case

FOLDER = None  # set by main()
LOCK = ROOT / "tests/functional/editor"
# What npm says when it is not the package that is wrong.
NO_NETWORK = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT", "ENETUNREACH")


def install():
    """The folder of the server; skips where there is no npm, or no way to its registry."""
    if not shutil.which("npm") or not shutil.which("node"):
        raise unittest.SkipTest("npm and node are not installed; tools/setup installs them")
    digest = hashlib.sha256((LOCK / "package-lock.json").read_bytes()).hexdigest()
    done = FOLDER / "installed"
    if not done.exists() or done.read_text() != digest:
        FOLDER.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(LOCK / name, FOLDER)
        npm = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
                             cwd=FOLDER, text=True, capture_output=True, timeout=300)
        if any(word in npm.stderr for word in NO_NETWORK):
            raise unittest.SkipTest(f"npm's registry cannot be reached: {npm.stderr[:200]}")
        if npm.returncode != 0:
            raise AssertionError(npm.stdout + npm.stderr)
        done.write_text(digest)
    return FOLDER / "node_modules/yaml-language-server/bin/yaml-language-server"


class Server:
    """The language server as a child, spoken to by the Language Server Protocol."""

    def __init__(self, program, case, settings):
        self.settings = settings  # by section
        self.process = subprocess.Popen(["node", program, "--stdio"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.messages, self.last_id, self.writing = queue.Queue(), 0, threading.Lock()
        reader = threading.Thread(target=self.read)
        reader.start()
        case.addCleanup(self.process.stdout.close)
        case.addCleanup(self.process.stdin.close)
        case.addCleanup(reader.join)
        case.addCleanup(self.process.wait)
        case.addCleanup(self.process.kill)

    def read(self):
        stream = self.process.stdout
        while header := stream.readline():
            length = int(header.split(b":")[1])
            while stream.readline().strip():
                pass
            message = json.loads(stream.read(length))
            if "method" in message and "id" in message:
                self.answer(message)
            self.messages.put(message)

    def answer(self, message):
        """What a server asks its editor for: settings; all else is agreed to."""
        result = None
        if message["method"] == "workspace/configuration":
            result = [self.settings.get(item.get("section"), {})
                      for item in message["params"]["items"]]
        self.write(id=message["id"], result=result)

    def send(self, method, params, **more):
        self.write(method=method, params=params, **more)

    def write(self, **message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        with self.writing:
            self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            self.process.stdin.flush()

    def wait(self, wanted):
        """The first message that is wanted; others are dropped."""
        while True:
            message = self.messages.get(timeout=PATIENCE)
            if wanted(message):
                return message

    def ask(self, method, params):
        self.last_id += 1
        self.send(method, params, id=self.last_id)
        return self.wait(lambda m: m.get("id") == self.last_id and "method" not in m)["result"]


class EditorTest(Case):
    TEXT = ("version: 1\nname: edited\ntasks:\n  a:\n    run: echo a\n    retry: {max_attempts: 3}\n"
            "  b:\n    run: echo b\n    nedes: [a]\n    priority: high\n")

    def setUp(self):
        super().setUp()
        program = install()
        schema = self.write("schema.json", self.hw("workflow", "schema").stdout)
        self.server = Server(program, self, {"yaml": {
            "schemas": {schema.as_uri(): "*.yaml"}, "validate": True, "hover": True,
            "completion": True, "schemaStore": {"enable": False}}})
        self.server.ask("initialize", {"processId": None, "rootUri": self.dir.as_uri(),
                                       "capabilities": {"workspace": {
                                           "configuration": True,
                                           "didChangeConfiguration": {"dynamicRegistration": True}}}})
        self.server.send("initialized", {})
        self.server.send("workspace/didChangeConfiguration", {"settings": None})
        self.server.wait(lambda m: m.get("method") == "workspace/configuration")

    def open(self, name, text, faulty=False):
        """Opens a file; its URI and what is wrong with it.  The server looks again when it has
        read its settings, so a faulty file may be found good at first."""
        uri = self.write(name, text).as_uri()
        self.server.send("textDocument/didOpen", {"textDocument": {
            "uri": uri, "languageId": "yaml", "version": 1, "text": text}})
        found = self.server.wait(lambda m: m.get("method") == "textDocument/publishDiagnostics"
                                 and m["params"]["uri"] == uri
                                 and (m["params"]["diagnostics"] or not faulty))
        return uri, {(fault["range"]["start"]["line"] + 1, fault["message"])
                     for fault in found["params"]["diagnostics"]}

    def hover(self, uri, line, column):
        contents = self.server.ask("textDocument/hover", {
            "textDocument": {"uri": uri}, "position": {"line": line - 1, "character": column}})
        return json.dumps(contents)

    def test_hover_tells_the_meaning_and_diagnostics_what_is_wrong(self):
        uri, faults = self.open("edited.yaml", self.TEXT, faulty=True)
        self.assertEqual({line for line, _ in faults}, {9, 10}, faults)
        self.assertIn("nedes", " ".join(text for _, text in faults))
        self.assertIn("Tries in total", self.hover(uri, 6, 15))
        self.assertIn("A script for a shell", self.hover(uri, 5, 5))

    def test_reserved_keys_say_what_they_come_with_as_the_validator_does(self):
        text = "version: 1\nname: ahead\nschedule: '0 3 * * *'\ntasks:\n  a:\n    run: x\n    image: y\n"
        uri, faults = self.open("ahead.yaml", text, faulty=True)
        said = self.hw("workflow", "validate", "ahead.yaml", code=harness.USAGE).stderr
        for line, column, key in ((3, 2, "schedule"), (7, 6, "image")):
            why = re.search(f'HW1007 (the key "{key}" .*)', said)[1]
            self.assertIn((line, why), faults)
            # Markdown, as JSON: "`" has a backslash before it.
            self.assertIn(json.dumps(why)[1:-1], self.hover(uri, line, column).replace("\\\\`", "`"))
        half, _ = self.open("half.yaml", "version: 1\ntasks:\n  a:\n    run: x\n    im")
        offered = self.server.ask("textDocument/completion", {
            "textDocument": {"uri": half}, "position": {"line": 4, "character": 6}})
        self.assertNotIn("image", [item["label"] for item in offered["items"]])

    def test_keys_are_completed(self):
        text = "version: 1\ntasks:\n  a:\n    run: x\n    trigger_rule: \n    all"
        uri, _ = self.open("half.yaml", text)
        offered = self.server.ask("textDocument/completion", {
            "textDocument": {"uri": uri}, "position": {"line": 5, "character": 7}})
        self.assertIn("allow_failure", [item["label"] for item in offered["items"]])

    def test_all_examples_are_without_a_fault(self):
        for path in sorted((ROOT / "examples").rglob("*.yaml")):
            with self.subTest(path=path.name):
                self.assertEqual(self.open(path.name, path.read_text())[1], set())


def main():
    global FOLDER
    FOLDER = pathlib.Path(sys.argv.pop(2)).resolve()
    harness.main()


if __name__ == "__main__":
    main()
