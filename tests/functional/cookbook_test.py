"""Every pattern of docs/cookbook.md runs and does what the page says."""
import re
import shutil
import signal

import harness
from harness import FAILED, ROOT, Case

FOLDER = ROOT / "examples/cookbook"
PAGE = (ROOT / "docs/cookbook.md").read_text()


class CookbookTest(Case):
    def recipe(self, name, *args, **code):
        """The text that the run of a pattern prints."""
        return self.hw("run", shutil.copy(FOLDER / f"{name}.yaml", self.dir), *args, **code).stdout

    def test_page_shows_each_file_and_quotes_it(self):
        names = {path.name for path in FOLDER.glob("*.yaml")}
        linked = re.findall(r"\]\(\.\./examples/cookbook/([\w.-]+)\)", PAGE)
        self.assertEqual(sorted(linked), sorted(names))
        self.assertGreaterEqual(len(names), 12)
        for section in PAGE.split("\n## ")[1:]:
            file = re.search(r"cookbook/([\w.-]+)\)", section).group(1)
            for block in re.findall(r"```yaml\n(.*?)```", section, re.S):
                self.assertIn(block, (FOLDER / file).read_text(), f"{file} is quoted as it is")

    def test_each_is_run_by_a_test_here(self):
        tests = "".join(name for name in dir(self) if name.startswith("test_"))
        for path in FOLDER.glob("*.yaml"):
            self.assertIn(path.stem.replace("-", "_"), tests)

    def test_etl_with_clean_up(self):
        out = self.recipe("etl-with-clean-up")
        self.assertIn("loaded 100 rows", out)
        self.assertGreater(out.index("nothing is left"), out.index("loaded"))

    def test_clean_up_leaves_what_a_rerun_needs(self):
        for name, params in (("etl-with-clean-up", ()), ("daily-load", ("-p", "fail=true"))):
            text = (FOLDER / f"{name}.yaml").read_text()
            if name.startswith("etl"):
                flag = self.dir / "mended"
                text = text.replace("run: echo \"loaded", f"run: test -e {flag} && echo \"loaded")
            file = self.dir / f"{name}.yaml"
            file.write_text(text)
            self.hw("run", file, *params, code=FAILED)
            self.assertEqual(self.states()["clean_up"], "skipped", name)
            if name.startswith("etl"):
                flag.touch()
                out = self.hw("runs", "rerun", "@last", "--failed").stdout
                self.assertIn("loaded 100 rows", out)
                self.assertIn("nothing is left", out)

    def test_clean_up_always(self):
        text = (FOLDER / "clean-up-always.yaml").read_text()
        flag = self.dir / "mended"
        self.write("w.yaml", text.replace("      echo \"loaded", f"      test -e {flag} && echo \"loaded"))
        out = self.hw("run", "w.yaml", code=FAILED).stdout
        self.assertIn("clean_up | nothing is left", out)
        self.assertTrue(out.endswith("retry with: headworks runs rerun 1 --failed\n"
                                     "or, if clean_up took away what that needs: "
                                     "headworks runs rerun 1 --all\n"), out)
        flag.touch()
        self.assertNotIn("loaded 100", self.hw("runs", "rerun", "@last", "--failed", code=FAILED).stdout,
                         "the copy is gone")
        for how in (["--from", "check_out"], ["--all"]):
            self.assertIn("load | loaded 100 rows", self.hw("runs", "rerun", "@last", *how).stdout)

    def test_clean_up_that_did_not_run_changes_no_advice(self):
        self.write("w.yaml", "version: 1\nname: w\ntasks:\n  a: {run: 'true'}\n"
                             "  b: {run: 'false', needs: [a]}\n"
                             "finally:\n  c: {run: 'true', when: run.outcome == 'succeeded'}\n")
        self.assertNotIn("--all", self.hw("run", "w.yaml", code=FAILED).stdout)
        self.write("v.yaml", "version: 1\nname: v\ntasks:\n  b: {run: 'false'}\n"
                             "finally:\n  c: {run: 'true'}\n")
        self.assertNotIn("--all", self.hw("run", "v.yaml", code=FAILED).stdout,
                         "nothing is kept that could miss anything")
        self.write("u.yaml", "version: 1\nname: u\ntasks:\n  a: {run: 'true'}\n"
                             "  b: {run: 'false', needs: [a]}\n"
                             "  c: {run: 'true', needs: [b], trigger_rule: all_done}\n")
        self.assertIn("or, if c took away what that needs: headworks runs rerun 3 --all",
                      self.hw("run", "u.yaml", code=FAILED).stdout)

    def test_fan_in(self):
        out = self.recipe("fan-in")
        for key in ("hosts", "users", "groups"):
            self.assertRegex(out, rf'join \| .*"{key}":')

    def test_optional_step(self):
        self.assertIn("release | released", self.recipe("optional-step"))
        self.assertEqual(self.states()["publish_coverage"], "failed")

    def test_alert_on_failure(self):
        self.assertIn("all well", self.recipe("alert-on-failure"))
        self.assertEqual(self.states()["alert"], "skipped")
        self.assertIn("somebody was told",
                      self.recipe("alert-on-failure", "-p", "fail=true", code=FAILED))

    def test_daily_load(self):
        out = self.recipe("daily-load")
        self.assertRegex(out, r"load \| loaded 100 orders of \d{4}-\d\d-\d\d\n")
        self.assertEqual((self.states()["statistics"], self.states()["alert"]), ("failed", "skipped"))
        out = self.recipe("daily-load", "-p", "fail=true", "-p", "day=2026-01-31", code=FAILED)
        self.assertIn("alert | the load of 2026-01-31 failed\n", out)
        self.assertIn("alert | to be looked at: load\n", out, "statistics may fail")

    def test_choose_the_best(self):
        self.assertIn("publish | published a model of depth 4\n", self.recipe("choose-the-best"))

    def test_choose_the_best_of_some(self):
        self.assertIn("publish | published rate 0.25\n", self.recipe("choose-the-best-of-some"))
        self.assertEqual((self.states()["train[0.9]"], self.states()["keep"]), ("failed", "skipped"))
        out = self.recipe("choose-the-best-of-some", "-p", "diverges_from=0")
        self.assertIn("keep | none of them did it", out)
        self.assertEqual(self.states()["publish"], "skipped")

    def test_many_arguments(self):
        out = self.recipe("many-arguments")
        for name in ("a.txt", "b.txt"):
            self.assertIn(f"short | short <{name}>\n", out)
        out = self.recipe("many-arguments", "-p", "files=[\"a  b\", \"*\"]")
        self.assertIn("any | any <a  b>\n", out)
        self.assertIn("any | any <*>\n", out)

    def test_passing_data(self):
        self.assertIn("tell | large a+b c", self.recipe("passing-data"))

    def test_build_matrix(self):
        out = self.recipe("build-matrix")
        self.assertEqual(sorted(re.findall(r"\| (built for .*|tested on .*)", out)),
                         ["built for alpine release", "built for debian debug",
                          "built for debian release", "tested on alpine", "tested on debian"])
        self.assertTrue(out.index("publish | published") > out.rindex("tested on"))

    def test_retry_on_network_errors(self):
        self.recipe("retry-on-network-errors")
        self.assertEqual(self.json("runs", "show", "@last")["tasks"][0]["tries"], 3)
        self.recipe("retry-on-network-errors", "-p", "fault=request", code=FAILED)
        self.assertEqual(self.json("runs", "show", "@last")["tasks"][0]["tries"], 1)

    def test_only_when_needed(self):
        self.assertNotIn("deployed", self.recipe("only-when-needed"))
        self.assertEqual(self.states(), {"build": "succeeded", "deploy": "skipped",
                                         "tell": "succeeded"})
        self.assertIn("deployed 3 files", self.recipe("only-when-needed", "-p", "env=prod"))

    def test_a_few_at_a_time(self):
        out = self.recipe("a-few-at-a-time")
        self.assertLess(out.index("important | "), out.index("three | "))

    def test_retry_with_backoff(self):
        self.assertIn("call | try 3", self.recipe("retry-with-backoff"))

    def test_graceful_stop(self):
        out = self.recipe("graceful-stop")
        self.assertIn("serve | put away", out)
        self.assertIn("after | went on", out)

    def test_undo_on_cancel(self):
        process = self.start("run", shutil.copy(FOLDER / "undo-on-cancel.yaml", self.dir))
        self.until_said(process, "task wait_for_goods started")
        process.send_signal(signal.SIGINT)
        out = self.ends(process, FAILED)
        self.assertIn("reservation given back", out)
        self.assertGreater(out.index("close | closed"), out.index("given back"))

    def test_idempotent_write(self):
        self.assertIn("check | paid 1 time", self.recipe("idempotent-write"))

    def test_fail_fast(self):
        self.recipe("fail-fast", code=FAILED)
        self.assertEqual(self.states(), {"lint": "failed", "slow_tests": "cancelled"})

    def test_shared_settings(self):
        self.assertIn("second | hello from the second", self.recipe("shared-settings"))


if __name__ == "__main__":
    harness.main()
