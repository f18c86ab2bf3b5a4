"""Every example runs."""
import shutil
import subprocess
import unittest
from xml.etree import ElementTree

import harness
from harness import PATIENCE, ROOT, Case


class ExamplesTest(Case):
    def example(self, name):
        shutil.copytree(ROOT / "examples" / name, self.dir / name)
        return self.dir / name

    def test_hello(self):
        out = self.hw("run", self.example("hello") / "hello.yaml").stdout
        self.assertRegex(out, r"report \| hello: \d+ programs in \d+ KiB")

    @unittest.skipUnless(shutil.which("dpkg-query"), "needs dpkg-query, which Debian has")
    def test_packages_makes_a_page_with_a_chart(self):
        self.hw("run", self.example("packages") / "packages.yaml")
        outputs = {task["task"]: task["output"] for task in
                   self.json("runs", "show", "@last")["tasks"]}
        installed = subprocess.run(["dpkg-query", "-W"], text=True, check=True,
                                   capture_output=True).stdout.count("\n")
        self.assertEqual(outputs["extract"]["packages"], installed)
        with open(outputs["report"]["report"]) as file:
            page = file.read()
        svg = ElementTree.fromstring(page[page.index("<svg"):page.index("</svg>") + 6])
        self.assertGreater(len(svg.findall("rect")), 3)

    def test_flaky_succeeds_at_its_third_try(self):
        out = self.hw("run", self.example("flaky") / "flaky.yaml").stdout
        self.assertIn("(try 1 of 4): exit code 7; next try at", out)
        tasks = {task["task"]: task for task in self.json("runs", "show", "@last")["tasks"]}
        self.assertEqual(tasks["fetch"]["tries"], 3)
        self.assertEqual(tasks["mirror"]["state"], "failed")
        self.assertEqual(tasks["report"]["state"], "succeeded")

    def test_large_joins_what_hundreds_of_tasks_did(self):
        folder = self.example("large")
        flow = subprocess.run([folder / "generate.sh", "300"], text=True, check=True,
                              capture_output=True, timeout=PATIENCE).stdout
        self.hw("run", self.write("large.yaml", flow))
        run = self.json("runs", "show", "@last")
        self.assertEqual(run["counts"], {"succeeded": 302})
        self.assertEqual(run["tasks"][-1]["output"], {"sum": 300 * 301 // 2})


if __name__ == "__main__":
    harness.main()
