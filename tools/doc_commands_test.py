#!/usr/bin/env python3
"""Proves that doc_commands.py sees what it must see, on documents made for it."""
import pathlib
import tempfile
import unittest

import doc_commands


class DocCommandsTest(unittest.TestCase):
    def check(self, text):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "headworks"
            program.write_text("#!/bin/sh\necho \"headworks $*\"\nexit 3\n")
            program.chmod(0o755)
            document = pathlib.Path(folder) / "page.md"
            document.write_text(text)
            return doc_commands.check_document(document, folder)

    def assertFault(self, text, where):
        faults, _ = self.check(text)
        self.assertEqual(len(faults), 1, faults)
        self.assertIn(where, faults[0])

    def test_a_run_that_succeeds(self):
        self.assertEqual(self.check("```sh run\ntrue\n```\n"), ([], 1))

    def test_a_run_that_fails(self):
        self.assertFault("text\n```sh run\nfalse\ntrue\n```\n", "page.md:2: exited with 1, not 0")
        self.assertFault("```sh run\nfalse | cat\n```\n", "exited with 1, not 0")

    def test_the_exit_code_is_exact(self):
        self.assertEqual(self.check("```sh run exit=3\nheadworks x\n```\n"), ([], 1))
        self.assertFault("```sh run exit=3\ntrue\n```\n", "exited with 0, not 3")

    def test_files_and_the_folder_last_for_one_document(self):
        text = ("```yaml file=d/a.yaml\nx: 1\n```\n"
                "```sh run\ncp d/a.yaml b\n```\n```sh run\ngrep x b\n```\n")
        self.assertEqual(self.check(text), ([], 2))
        self.assertFault("```sh run\ncat b\n```\n", "exited with 1")

    def test_output(self):
        def run(output):
            return f"```sh run\nprintf 'a 12 c\\nd\\ne\\n'\n```\n```text output\n{output}\n```\n"
        for good in ["a 12 c\nd\ne", "a ... c\n...", "...", "a ... c\n...\ne"]:
            self.assertEqual(self.check(run(good))[0], [], good)
        for bad in ["a 12 c", "a 13 c\nd\ne", "...\nf", "a 12 c\nd\n...\ne\nf"]:
            self.assertFault(run(bad), "the output differs")
        self.assertFault("```text output\nx\n```\n", "no run stands before")

    def test_scripts_that_are_shown_exist(self):
        self.assertEqual(self.check("```sh\ntools/setup && ./tools/test -L fast\n```\n"), ([], 0))
        self.assertFault("```sh\ntools/gone\n```\n", "tools/gone is not an executable")

    def test_an_open_fence(self):
        with self.assertRaises(ValueError):
            self.check("```sh run\ntrue\n")


if __name__ == "__main__":
    unittest.main()
