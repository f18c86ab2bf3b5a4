"""`workflow`, `up`, `tasks`, `db`, `config`, `doctor`, `completion`, `explain`."""
import contextlib
import os
import shutil
import signal
import sqlite3

import harness
from harness import (FAILED, NOT_FOUND, OK, PATIENCE, REFUSED, ROOT, UNAVAILABLE, USAGE, Case,
                     gate)


def flow(name, script="true"):
    return f"version: 1\nname: {name}\ntasks:\n  a: {{run: '{script}'}}\n"


class WorkflowTest(Case):
    def test_register_list_show_delete(self):
        self.write("w/one.yaml", flow("one"))
        self.write("w/two.yml", flow("two"))
        self.write("w/notes.txt", "not a workflow")
        self.hw("workflow", "register", "w")
        self.assertEqual([entry["workflow"] for entry in self.json("workflow", "list")],
                         ["one", "two"])
        shown = self.json("workflow", "show", "one")
        self.assertEqual(shown["workflow"], "one")
        self.assertEqual(len(shown["version"]), 64)
        self.assertEqual(shown["source"], str(self.dir / "w/one.yaml"))
        self.assertRegex(self.hw("workflow", "show", "embedded::one").stdout, r"0 +a +")
        self.hw("workflow", "delete", "one")
        done = self.hw("workflow", "show", "one", code=NOT_FOUND)
        self.assertIn("headworks workflow list", done.stderr)

    def test_registering_is_all_or_nothing(self):
        self.write("w/a.yaml", flow("a"))
        self.write("w/b.yaml", "version: 1\nname: b\ntasks: {}\nmistake: 1\n")
        self.hw("workflow", "register", "w", code=USAGE)
        self.hw("workflow", "list", code=NOT_FOUND)
        self.assertFalse(self.store.exists())
        self.hw("workflow", "register", "none", code=NOT_FOUND)

    def test_disabled_workflow_starts_no_run(self):
        self.write("one.yaml", flow("one"))
        self.hw("workflow", "register", "one.yaml")
        self.hw("workflow", "disable", "one")
        self.assertFalse(self.json("workflow", "list")[0]["enabled"])
        self.hw("run", "one.yaml", code=REFUSED)
        self.hw("workflow", "enable", "one")
        self.hw("run", "one.yaml")


class UpTest(Case):
    def test_folder_is_registered_and_followed(self):
        self.write("w/one.yaml", flow("one", "echo first"))
        self.write("w/bad.yaml", "version: 1\nname: bad\n")
        engine = self.engine_up("w")
        self.until_said(engine, "workflow one registered")
        self.until_said(engine, "bad.yaml")
        self.write("w/two.yaml", flow("two"))
        self.until_said(engine, "workflow two registered")
        self.write("w/one.yaml", flow("one", "echo second"))
        self.until_said(engine, "workflow one updated")
        self.write("w/three.yaml", flow("two"))
        self.until_said(engine, "workflow two is already defined by")
        os.unlink(self.dir / "w/two.yaml")
        self.until_said(engine, "workflow two stays registered")
        self.assertEqual([entry["workflow"] for entry in self.json("workflow", "list")],
                         ["one", "two"])
        self.hw("run", "w/one.yaml")
        self.until_said(engine, "run 1 succeeded")
        engine.send_signal(signal.SIGTERM)
        text = self.ends(engine, OK)
        self.assertIn("draining", text)

    def test_second_engine_is_refused_and_told_who_owns_the_store(self):
        self.engine_up()
        done = self.hw("up", code=REFUSED)
        self.assertIn(str(self.store), done.stderr)

    def test_missing_folder_is_not_found(self):
        done = self.hw("up", "nowhere", code=NOT_FOUND)
        self.assertEqual(done.stdout, "", "no engine is up")

    def test_signals_are_heard_while_nobody_reads_the_output(self):
        self.write("w/one.yaml", flow("one", "echo hi"))
        self.write("w/bad.yaml", "version: 1\n")
        engine = self.start_unread("up", "w")
        self.until(lambda: self.hw("run", "w/one.yaml", "--detach",
                                   code=(OK, UNAVAILABLE)).returncode == OK, "the engine is up")
        self.until(lambda: self.run_state() == "succeeded", "the run ends")
        self.leaves(engine, OK)

    def test_interrupt_drains(self):
        self.write("slow.yaml", flow("slow", gate("a")))
        engine = self.engine_up()
        run = self.json("run", "slow.yaml", "--detach")
        self.until_exists("a.here")
        engine.send_signal(signal.SIGINT)
        self.until_said(engine, "draining")
        self.write("a.go", "")
        self.ends(engine, OK)
        self.assertEqual(self.states(run["run"]), {"a": "succeeded"})


class StoreTest(Case):
    def setUp(self):
        super().setUp()
        self.write("one.yaml", flow("one", "echo hi"))
        self.hw("run", "one.yaml")

    def damage(self, path, offset=4096):
        with open(path, "r+b") as file:
            file.seek(offset)
            file.write(b"\xff" * 8192)

    def test_check_backup_vacuum_migrate(self):
        self.hw("db", "check")
        self.hw("db", "migrate")
        self.hw("db", "vacuum")
        self.hw("db", "backup", "copy.db")
        listed = self.json("runs", "list", "--store", "copy.db")
        self.assertEqual([run["run"] for run in listed], [1])
        done = self.hw("db", "backup", "copy.db", code=REFUSED)
        self.assertIn("copy.db", done.stderr)

    def test_damaged_store_is_found(self):
        self.damage(self.store)
        done = self.hw("db", "check", code=UNAVAILABLE)
        self.assertIn(str(self.store), done.stderr)

    def test_damaged_first_page_is_unavailable_and_no_fault_of_the_command_line(self):
        self.damage(self.store, 0)
        before = self.store.read_bytes()
        for command in (["run", "one.yaml"], ["up"], ["runs", "list"], ["runs", "cancel", "1"],
                        ["workflow", "list"], ["db", "check"], ["db", "backup", "copy.db"],
                        ["db", "vacuum"], ["queue", "push", "q", "1"]):
            done = self.hw(*command, code=UNAVAILABLE)
            self.assertIn(f"{self.store}: not a database, or its first page is damaged",
                          done.stdout + done.stderr, command)
        self.assertEqual(self.store.read_bytes(), before)

    def test_damaged_logs_are_found_by_check_and_doctor(self):
        self.damage(f"{self.store}-logs", 0)
        done = self.hw("db", "check", code=UNAVAILABLE)
        self.assertIn(f"{self.store}-logs", done.stdout)
        done = self.hw("doctor", code=UNAVAILABLE)
        self.assertRegex(done.stdout, rf"BAD +store .*{self.store}-logs")

    def test_check_reads_every_line(self):
        with contextlib.closing(sqlite3.connect(f"{self.store}-logs")) as logs, logs:
            logs.execute("UPDATE chunk SET data = X'ff'")
        done = self.hw("db", "check", code=UNAVAILABLE)
        self.assertIn("lines of run 1 of tenant public, task number 0, epoch 1, are damaged",
                      done.stdout)

    def test_doctor_looks_at_logs_and_artifacts(self):
        checks = {check["check"]: check for check in self.json("doctor")}
        self.assertIn(f"{self.store}-logs", checks["logs"]["detail"])
        self.assertIn(f"none yet in {self.store}-artifacts", checks["artifacts"]["detail"])
        os.truncate(f"{self.store}-logs", 0)
        os.unlink(f"{self.store}-logs")
        os.symlink(self.dir, f"{self.store}-logs")
        done = self.hw("doctor", code=UNAVAILABLE)
        self.assertRegex(done.stdout, rf"BAD +store .*{self.store}-logs")

    def test_backup_is_a_store_with_lines_and_artifacts(self):
        self.write("left.yaml", "version: 1\nname: left\ntasks:\n  a:\n    run: echo hello | tee x\n"
                                "    artifacts: {x: x}\n")
        self.hw("run", "left.yaml")
        figures = self.json("db", "backup", "copy.db")
        self.assertEqual(figures["artifacts"], 1)
        self.assertGreater(figures["log_bytes"], 0)
        shutil.rmtree(self.store.parent)
        self.assertEqual(self.hw("runs", "logs", "2", "a", "--store", "copy.db").stdout, "hello\n")
        self.hw("runs", "artifacts", "2", "a", "x", "--to", "y", "--store", "copy.db")
        self.assertEqual((self.dir / "y").read_text(), "hello\n")
        self.assertEqual(self.json("db", "check", "--store", "copy.db")["artifacts"], 1)
        # What is missing from a store is missing from its backup, and said.
        shutil.rmtree(self.dir / "copy.db-artifacts")
        done = self.hw("db", "check", "--store", "copy.db", code=UNAVAILABLE)
        self.assertIn("run 2, task number 0: artifact 'x'", done.stdout)
        done = self.hw("db", "backup", "second.db", "--store", "copy.db", code=UNAVAILABLE)
        self.assertIn("second.db lacks 1 artifact", done.stderr)
        self.hw("runs", "show", "2", "--store", "second.db")

    def test_vacuum_gives_back_the_space_of_deleted_lines(self):
        self.write("loud.yaml", flow("loud", "seq 1 200000"))
        self.hw("run", "loud.yaml")
        self.hw("runs", "delete", "2")
        figures = self.json("db", "vacuum")
        self.assertLess(figures["log_bytes_after"], figures["log_bytes_before"] / 4)
        self.assertEqual(os.path.getsize(f"{self.store}-logs"), figures["log_bytes_after"])

    def test_backup_while_an_engine_works(self):
        self.engine_up()
        self.hw("db", "backup", "copy.db")
        self.assertEqual(len(self.json("runs", "list", "--store", "copy.db")), 1)


class NoStoreTest(Case):
    def made(self):
        return sorted(str(path.relative_to(self.dir)) for path in self.dir.rglob("*")
                      if not path.name.startswith("output-"))

    def test_only_what_brings_something_makes_a_store(self):
        self.write("one.yaml", flow("one"))
        before = self.made()
        for command in ("runs list", "runs show @last", "runs logs 1", "runs artifacts 1",
                        "runs why 1", "runs cancel 1", "runs pause 1", "runs resume 1",
                        "runs rerun 1", "runs rerun 1 --detach", "runs mark 1 a success",
                        "runs unstick 1", "runs delete 1", "runs prune --older-than 1d",
                        "run one.yaml --resume", "workflow list", "workflow show one",
                        "workflow delete one", "workflow enable one", "workflow disable one",
                        "pool list", "pool show p", "pool delete p", "alerts list",
                        "workers list", "queue list q", "queue dead q", "queue pull q",
                        "queue stats q", "db check", "db backup copy.db", "db vacuum",
                        "db migrate"):
            done = self.hw(*command.split(), code=NOT_FOUND)
            self.assertIn(str(self.store), done.stderr, command)
            self.assertEqual(self.made(), before, command)
        done = self.hw("runs", "list", code=NOT_FOUND)
        for way in ("headworks run FILE", "workflow register", "queue push", "HEADWORKS_STORE"):
            self.assertIn(way, done.stderr)
        # Neither do those that need none.
        self.hw("workflow", "validate", "one.yaml")
        self.hw("run", "one.yaml", "--dry-run")
        self.hw("doctor")
        self.assertEqual(self.made(), before)

    def test_empty_file_is_no_store_yet(self):
        self.store.parent.mkdir()
        self.store.touch()
        self.hw("runs", "list", code=NOT_FOUND)
        self.assertEqual(self.store.stat().st_size, 0)
        self.write("one.yaml", flow("one"))
        self.hw("run", "one.yaml")
        self.assertEqual(len(self.json("runs", "list")), 1)

    def test_each_of_these_makes_one(self):
        self.write("one.yaml", flow("one"))
        for number, command in enumerate((["run", "one.yaml"], ["workflow", "register", "one.yaml"],
                                          ["queue", "push", "q", "1"],
                                          ["run", "one.yaml", "--to-queue", "q"],
                                          ["pool", "set", "p", "1"])):
            self.env["HEADWORKS_STORE"] = str(self.dir / f"{number}.db")
            self.hw(*command)
            self.hw("runs", "list")
        self.env["HEADWORKS_STORE"] = str(self.store)
        self.engine_up()
        self.hw("runs", "list")


class ConfigTest(Case):
    def test_each_value_says_where_it_comes_from(self):
        self.write("config/headworks/config.yaml", "inline_threads: 3\ndrain_timeout: 20s\n")
        self.env["HEADWORKS_DRAIN_TIMEOUT"] = "30s"
        shown = self.json("config", "show", "--max-concurrent-tasks", "9")
        self.assertEqual(shown["store"], {"value": str(self.store), "from": "HEADWORKS_STORE"})
        self.assertEqual(shown["inline_threads"]["value"], "3")
        self.assertIn("config.yaml:1", shown["inline_threads"]["from"])
        self.assertEqual(shown["drain_timeout"],
                         {"value": "30s", "from": "HEADWORKS_DRAIN_TIMEOUT"})
        self.assertEqual(shown["max_concurrent_tasks"],
                         {"value": "9", "from": "--max-concurrent-tasks"})
        self.assertEqual(shown["lease_ttl"], {"value": "10s", "from": "default"})

    def test_check_refuses_unknown_keys_and_variables(self):
        self.hw("config", "check")
        self.env["HEADWORKS_STOER"] = "x"
        self.assertIn("HEADWORKS_STOER", self.hw("config", "check", code=USAGE).stderr)
        del self.env["HEADWORKS_STOER"]
        path = self.write("mine.yaml", "tennant: x\n")
        done = self.hw("config", "check", "--config", path, code=USAGE)
        self.assertIn("mine.yaml:1: unknown setting 'tennant', did you mean 'tenant'?", done.stderr)

    def test_check_knows_what_tasks_are_given(self):
        self.write("inside.yaml", f"""
version: 1
name: inside
params:
  word: {{default: hello}}
tasks:
  a: {{run: "{self.program} config check; echo ${{{{ params.word }}}}; env > seen"}}
  b:
    run: {self.program} config check
    env: {{HEADWORKS_STOER: x}}
    needs: [a]
""")
        self.hw("run", "inside.yaml", code=FAILED)
        self.assertEqual(self.states("@last"), {"a": "succeeded", "b": "failed"})
        self.assertIn("HEADWORKS_STOER;", self.hw("runs", "logs", "@last", "b").stdout)
        self.assertIn("HEADWORKS_V1=hello", (self.dir / "seen").read_text())

    def test_reference_page_is_what_the_program_says(self):
        page = (ROOT / "docs/configuration.md").read_text()
        self.assertEqual(page, self.hw("config", "docs").stdout,
                         "headworks config docs > docs/configuration.md")


class OthersTest(Case):
    def test_doctor_finds_all_well_and_what_is_missing(self):
        checks = {check["check"]: check for check in self.json("doctor")}
        self.assertTrue(all(check["ok"] for check in checks.values()), checks)
        self.assertIn("fdatasync", checks["durable write"]["detail"])
        self.assertIn("none is running", checks["engine"]["detail"])
        engine = self.engine_up()
        checks = {check["check"]: check for check in self.json("doctor")}
        self.assertIn(f"process {engine.pid} ", checks["engine"]["detail"])
        done = self.hw("doctor", "--supervisor-path", "/no/such/program", code=UNAVAILABLE)
        self.assertRegex(done.stdout, r"BAD +supervisor +.*/no/such/program")

    def test_tasks_list(self):
        self.assertEqual(self.json("tasks", "list"), [])

    def test_explain_knows_the_codes_that_faults_carry(self):
        self.write("bad.yaml", "version: 1\nname: bad\ntasks:\n  a: {run: x, needs: [zz]}\n")
        fault = self.hw("run", "bad.yaml", code=USAGE).stderr
        code = next(word for word in fault.replace(":", " ").split() if word.startswith("HW"))
        self.assertIn(code, self.hw("explain", code).stdout)
        self.assertEqual(self.json("explain", code.lower())["code"], code)
        self.hw("explain", "HW9999", code=NOT_FOUND)

    def test_completion_is_for_shells_that_are_known(self):
        self.hw("completion", "tcsh", code=USAGE)


if __name__ == "__main__":
    harness.main()
