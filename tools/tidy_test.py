#!/usr/bin/env python3
"""Proves that each rule of tidy.py fires, and that a tree which keeps them passes."""
import pathlib
import tempfile
import unittest

import tidy

HEADER = "src/model/include/headworks/model/run.h"
GOOD = {
    "src/model/CMakeLists.txt": "headworks_module(model SOURCES run.cc HEADERS run.h\n"
                                "  TESTS tests/run_test.cc)\n",
    HEADER: "#pragma once\n#include \"headworks/base/time.h\"\n",
    "src/model/run.cc": "#include \"headworks/model/run.h\"\n",
    "src/model/tests/run_test.cc": "#include \"headworks/store/store.h\"\nSystemClock now;\n",
    "README.md": "[source](src/model/run.cc) [web](https://example.org) [part](README.md#x)\n",
}


class TidyTest(unittest.TestCase):
    def faults(self, changes=None):
        with tempfile.TemporaryDirectory() as root:
            for name, text in {**GOOD, **(changes or {})}.items():
                path = pathlib.Path(root) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return tidy.faults(root)

    def assertFires(self, rule, where, changes):
        found = self.faults(changes)
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].endswith(f"[{rule}]"), found)
        self.assertTrue(found[0].startswith(where), found)

    def appended(self, name, text):
        return {name: GOOD[name] + text}

    def test_a_tree_that_keeps_the_rules_passes(self):
        self.assertEqual(self.faults(), [])

    def test_file_size_at_the_bound(self):
        self.assertEqual(self.faults({"src/model/run.cc": "\n" * 999}), [])
        self.assertFires("file_size", "src/model/run.cc: 1000", {"src/model/run.cc": "\n" * 1000})
        self.assertEqual(self.faults({"ARCHITECTURE.md": "\n" * 300}), [])
        self.assertFires("file_size", "ARCHITECTURE.md", {"ARCHITECTURE.md": "\n" * 301})

    def test_vague_names(self):
        for name in ["tools/string_util.py", "tools/common/x.py", "docs/helper.md",
                     "tools/task-manager.py"]:
            self.assertFires("vague_names", name, {name: ""})

    def test_direct_calls(self):
        for call in ["std::chrono::steady_clock::now()", "clock_gettime(CLOCK_REALTIME, &t)",
                     "time(nullptr)", "SystemClock().Now()", "std::this_thread::sleep_for(x)",
                     "usleep(3)", "sleep(1)", "std::random_device r", "rand()",
                     "getrandom(p, 8, 0)", "std::mt19937 r", "SystemRandom random",
                     "std::getenv(\"HOME\")", "secure_getenv(\"HOME\")", "setenv(a, b, 1)"]:
            self.assertFires("direct_calls", "src/model/run.cc:2",
                             self.appended("src/model/run.cc", f"auto x = {call};\n"))

    def test_direct_calls_in_words_alike_and_in_adapters_pass(self):
        for line in ["// never sleep() here", "auto x = runtime(0);", "operand(3);",
                     "task.sleep_until = now;", "my_getenv_count(1);"]:
            self.assertEqual(self.faults(self.appended("src/model/run.cc", line + "\n")), [], line)
        self.assertEqual(self.faults({
            "src/executor_process/CMakeLists.txt": "headworks_module(executor_process SOURCES a.cc)",
            "src/executor_process/a.cc": "auto e = getenv(\"PATH\");\n"}), [])

    def test_tests_may_read_the_clock_but_not_sleep(self):
        self.assertFires("direct_calls", "src/model/tests/run_test.cc:3",
                         self.appended("src/model/tests/run_test.cc", "sleep_for(x);\n"))

    def test_allowance_needs_its_rule_and_a_reason(self):
        def with_mark(mark):
            return self.appended("src/model/run.cc", f"// {mark}\nsleep(1);\n")
        self.assertEqual(self.faults(with_mark("tidy-allow(sleep): nothing signals this")), [])
        for mark in ["tidy-allow(clock): wrong rule", "tidy-allow(sleep):", "tidy-allow"]:
            self.assertFires("direct_calls", "src/model/run.cc:3", with_mark(mark))

    def test_arrows(self):
        self.assertFires("arrows", "src/model/run.cc:2: model may not include engine",
                         self.appended("src/model/run.cc", "#include \"headworks/engine/e.h\"\n"))
        self.assertFires("arrows", HEADER + ":3",
                         self.appended(HEADER, "#include <headworks/store/store.h>\n"))

    def test_a_module_outside_the_table(self):
        self.assertFires("arrows", "src/novel/a.cc: module 'novel'", {
            "src/novel/CMakeLists.txt": "headworks_module(novel SOURCES a.cc)", "src/novel/a.cc": ""})

    def test_every_arrow_leads_to_a_module_and_none_in_a_circle(self):
        for module, targets in tidy.ARROWS.items():
            for target in targets:
                self.assertIn(target, tidy.ARROWS)
                self.assertNotIn(module, tidy.ARROWS[target])

    def test_adapter_libraries(self):
        for header in ["sqlite3.h", "libpq-fe.h", "yaml.h", "yaml-cpp/yaml.h", "CLI/CLI.hpp"]:
            self.assertFires("adapter_libraries", "src/model/run.cc:2",
                             self.appended("src/model/run.cc", f"#include <{header}>\n"))

    def test_header_guards(self):
        self.assertFires("header_guards", HEADER, {HEADER: "#ifndef RUN_H\n#endif\n"})

    def test_unfinished(self):
        for text in ["TODO: more", "FIXME", "// a placeholder", "Not implemented", "XXX"]:
            self.assertFires("unfinished", "README.md:2", self.appended("README.md", text + "\n"))
            self.assertFires("unfinished", "tools/run:1", {"tools/run": text})

    def test_foreign_paths(self):
        for path in ["/home/ada/x", "/root/x", "`/srv/build/x`"]:
            self.assertFires("foreign_paths", "README.md:2", self.appended("README.md", path + "\n"))
        self.assertEqual(self.faults(self.appended("README.md", "$HOME/srv/x ~/srv/x\n")), [])

    def test_globbed_sources(self):
        self.assertFires("listed_sources", "src/model/CMakeLists.txt",
                         self.appended("src/model/CMakeLists.txt", "file(GLOB x *.cc)\n"))

    def test_unlisted_sources(self):
        for name in ["src/model/more.cc", "src/model/include/headworks/model/more.h",
                     "src/model/tests/more_test.cc", "src/loose.cc/x.cc"]:
            text = "#pragma once\n"
            found = [f for f in self.faults({name: text}) if f.endswith("[listed_sources]")]
            self.assertEqual(found, [f"{name}: no CMakeLists.txt lists it [listed_sources]"])
        self.assertEqual(self.faults({"src/model/private.h": "#pragma once\n"}), [])
        # A commented-out entry, and one whose name merely ends alike, list nothing.
        listed = ("headworks_module(model SOURCES xrun.cc HEADERS run.h\n # run.cc\n"
                  "  TESTS tests/run_test.cc)\n")
        self.assertFires("listed_sources", "src/model/run.cc", {"src/model/CMakeLists.txt": listed})

    def test_links(self):
        self.assertFires("links", "README.md:2",
                         self.appended("README.md", "[gone](docs/gone.md#part)\n"))


if __name__ == "__main__":
    unittest.main()
