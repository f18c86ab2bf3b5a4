"""`headworks run`: what it prints, how it ends, what it refuses."""
import fcntl
import json
import os
import pty
import pwd
import re
import signal
import struct
import subprocess
import termios
import time

import harness
from harness import (FAILED, INTERRUPTED, NOT_FOUND, OK, PATIENCE, READER_LEFT, UNAVAILABLE, USAGE,
                     Case, gate)

CHAIN = """
version: 1
name: chain
tasks:
  a:
    run: |
      echo hello from a
      echo '{"n": 3}' > "$HEADWORKS_OUTPUT"
  b:
    needs: [a]
    run: cat "$HEADWORKS_INPUT"
"""

BROKEN = """
version: 1
name: broken
tasks:
  good:
    run: "true"
  bad:
    needs: [good]
    run: |
      seq 1 30
      exit 3
  never:
    needs: [bad]
    run: "true"
"""


class RunTest(Case):
    def test_numbers_are_plain_decimals(self):
        for args in (["pool", "set", "gpu"], ["runs", "list", "--limit"],
                     ["runs", "logs", "1", "--tail"], ["runs", "logs", "1", "a", "--attempt"],
                     ["run", "any.yaml", "--priority"], ["config", "check", "--inline-threads"]):
            for number in ("010", "0x4", "+3", "4.0", "1e2", " 5", "5 ", "", "many",
                           "99999999999999999999"):
                said = self.hw(*args, number, code=USAGE).stderr
                self.assertIn(f"'{number}' is not a number from", said, args)
        said = self.hw("config", "check", "--pools", "gpu=010", code=USAGE).stderr
        self.assertIn("'010' is not a number from 0 to 1000000", said)
        for bounds, args in (((0, 1_000_000), ["pool", "set", "gpu"]),
                             ((1, 100_000), ["runs", "list", "--limit"])):
            for number in bounds:
                self.hw(*args, number)
            for number in (bounds[0] - 1, bounds[1] + 1):
                said = self.hw(*args, number, code=USAGE).stderr
                self.assertIn(f"'{number}' is not a number from {bounds[0]} to {bounds[1]}", said)
        file = self.write("a.yaml", "version: 1\ntasks:\n  a: {run: 'true'}\n")
        for number in (-1000, 1000):
            self.hw("run", file, "--dry-run", "--priority", number)
        for number in (-1001, 1001, "-010"):
            self.assertIn(f"'{number}' is not a number from -1000 to 1000",
                          self.hw("run", file, "--dry-run", "--priority", number,
                                  code=USAGE).stderr)

    def test_success_is_told_in_plain_lines(self):
        self.write("chain.yaml", CHAIN)
        out = self.hw("run", "chain.yaml").stdout
        for line in ["task a started", "a | hello from a", "task a succeeded in ",
                     "task b started", "task b succeeded in ", "run 1 of chain succeeded in "]:
            self.assertIn(line, out)
        self.assertLess(out.index("task a succeeded"), out.index("task b started"))
        self.assertIn('"n":3', out.replace(" ", ""), "b sees what a put out")
        self.assertNotIn("\x1b", out, "no colours without a terminal")

    def test_failure_ends_with_the_last_lines_and_the_command_that_retries(self):
        self.write("broken.yaml", BROKEN)
        out = self.hw("run", "broken.yaml", code=FAILED).stdout
        end = out[out.index("task bad failed: exit code 3"):]
        self.assertEqual([line for line in end.splitlines() if line.startswith("  bad | ")],
                         [f"  bad | {n}" for n in range(11, 31)])
        self.assertIn("task never upstream_failed", out)
        self.assertTrue(out.rstrip().endswith("retry with: headworks runs rerun 1 --failed"), out)

    def test_store_flag_is_part_of_the_command_that_retries(self):
        self.write("broken.yaml", BROKEN)
        store = self.dir / "other.db"
        out = self.hw("run", "broken.yaml", "--store", store, code=FAILED).stdout
        self.assertIn(f"headworks runs rerun 1 --failed --store {store}", out)

    def test_json_leaves_standard_output_to_the_result(self):
        self.write("chain.yaml", CHAIN)
        done = self.hw("run", "chain.yaml", "-o", "json")
        run = json.loads(done.stdout)
        self.assertEqual(run["state"], "succeeded")
        self.assertEqual(run["workflow"], "chain")
        self.assertEqual(run["counts"], {"succeeded": 2})
        self.assertIn("task a started", done.stderr)

    def test_dry_run_shows_the_plan_and_opens_no_store(self):
        self.write("chain.yaml", CHAIN)
        out = self.hw("run", "chain.yaml", "--dry-run").stdout
        self.assertIn("nothing was started", out)
        self.assertRegex(out, r"1 +b +a +cat")
        plan = self.json("run", "chain.yaml", "--dry-run")
        self.assertEqual([task["level"] for task in plan["tasks"]], [0, 1])
        self.assertFalse(self.store.exists())

    def test_dry_run_shows_the_defaults_that_a_run_computes(self):
        self.write("daily.yaml", "version: 1\nname: daily\nparams:\n  n: 1\n"
                                 "  day: {type: date, default: '${{ run.date }}'}\n"
                                 "  of: ${{ run.workflow }}\ntasks: {a: {run: 'true'}}\n")
        plan = self.json("run", "daily.yaml", "--dry-run")
        self.assertRegex(plan["input"]["params"].pop("day"), r"^\d{4}-\d\d-\d\d$")
        self.assertEqual(plan["input"], {"input": {}, "params": {"n": 1, "of": "daily"}})
        self.assertEqual(plan["computed"], ["day", "of"])
        out = self.hw("run", "daily.yaml", "--dry-run", "-p", "day=2026-01-31").stdout
        self.assertIn('"day":"2026-01-31"', out)
        self.assertIn("computed as of now, and again when a run starts: of\n", out)

    def test_function_that_this_program_lacks_is_refused_before_anything_starts(self):
        flow = "version: 1\nname: calls\ntasks: {a: {run: 'true'}, b: {function: resize}}\n"
        self.write("flows/calls.yaml", flow)
        done = self.hw("run", "flows/calls.yaml", code=USAGE)
        self.assertIn("task b calls the function resize, which this program does not have",
                      done.stderr)
        self.assertIn("HEADWORKS_TASK", done.stderr)
        self.assertIn("warning: ", self.hw("run", "flows/calls.yaml", "--dry-run").stderr)
        self.assertFalse(self.store.exists())
        self.write("flows/chain.yaml", CHAIN)
        engine = self.engine_up("flows")
        self.until_said(engine, "workflow chain registered")
        self.assertIn("task b calls the function resize", self.text(engine))
        self.assertEqual([flow["workflow"] for flow in self.json("workflow", "list")], ["chain"])

    def test_what_never_runs_is_told_when_that_is_known(self):
        self.write("f.yaml", f"""
version: 1
name: f
tasks:
  bad: {{run: exit 1}}
  after: {{run: 'true', needs: [bad]}}
  off: {{run: 'true', when: 'false'}}
  long: {{run: '{gate('long')}'}}
  late: {{run: exit 1, needs: [long]}}
  never: {{run: 'true', needs: [late]}}
finally:
  last: {{run: echo last}}
""")
        process = self.start("run", "f.yaml")
        self.until_exists("long.here")
        self.until_said(process, "task after upstream_failed")
        self.until_said(process, "task off skipped")
        self.assertNotIn("task long succeeded", self.text(process))
        self.write("long.go", "")
        out = self.ends(process, FAILED)
        self.assertLess(out.index("task never upstream_failed"), out.index("task last started"))

    def test_deadline_is_called_so(self):
        self.write("d.yaml", """
version: 1
name: d
tasks:
  slow: {run: sleep 60, deadline: 300ms}
  parked: {run: exit 3, deadline: 300ms, retry: {max_attempts: 5, initial: 60s}}
""")
        out = self.hw("run", "d.yaml", code=FAILED).stdout
        self.assertRegex(out, r"task slow failed in \S+ \(try 1 of 1\): deadline of 300ms\n")
        self.assertIn("\ntask parked failed (deadline)\n", out)
        end = out[out.index("task slow failed: "):]
        self.assertIn("task slow failed: deadline of 300ms (try 1 of 1)\n", end)
        self.assertIn("task parked failed at its deadline of 300ms: exit code 3 (try 1 of 5)\n", end)
        for word in ("cancel", "timeout"):
            self.assertNotIn(word, out)
        self.assertRegex(self.hw("runs", "show", "1").stdout, r"slow +failed +1 .* deadline of 300ms\n")
        self.assertNotIn("error:", self.hw("runs", "why", "1", "slow").stdout)

    def test_task_that_never_started_is_told_so_and_not_by_how_its_attempt_ended(self):
        self.write("st.yaml", "version: 1\ndefaults: {start_timeout: 1us}\ntasks:\n"
                   "  a: {matrix: {n: [%s]}, run: 'true'}\n" % ", ".join(map(str, range(20))))
        out = self.hw("run", "st.yaml", "--pending-timeout", "0s", code=FAILED).stdout
        self.assertRegex(out, r"(?m)^task a\[\d+\] failed: did not start within start_timeout "
                              r"\(1us\) and the time after it \(pending_timeout\)$")
        for wrong in ("failed: succeeded", "failed: cancel", r"\d{5}h", "^task .* failed$"):
            self.assertNotRegex(out, f"(?m){wrong}")
        summary = out[:out.index("retry with")].rpartition("\ntask a[")[2]
        self.assertIn("(pending_timeout)\n  attempt ", summary)
        self.assertIn("has not started within 1us; ", summary)
        self.assertIn("start_timeout in the file, or with --pending-timeout (now 0s)", summary)
        failed = [task["task"] for task in self.json("runs", "show", "1")["tasks"]
                  if task["reason"] == "pending_timeout"]
        self.assertTrue(failed)
        for task in failed:  # each is told once, whatever its attempt said later
            lines = re.findall(rf"(?m)^task {re.escape(task)} (.*)", out[:out.index(summary)])
            self.assertEqual([line for line in lines if not line.startswith("failed: did not")], [])
        shown = self.hw("runs", "show", "1").stdout
        self.assertIn("pending_timeout", shown)
        self.assertNotRegex(shown, r"\d{5}h")

    def test_sigterm_whose_drain_ends_the_run_reports_its_end(self):
        file = self.write("slow.yaml", f"version: 1\ntasks:\n  a: {{run: '{gate('a')}'}}\n")
        for code, script in ((OK, ""), (FAILED, "; exit 3")):
            self.write("slow.yaml", f"version: 1\ntasks:\n  a: {{run: '{gate('a')}{script}'}}\n")
            process = self.start("run", file)
            self.until_exists("a.here")
            process.send_signal(signal.SIGTERM)
            self.until_said(process, "terminated: waiting up to")
            self.write("a.go", "")
            out = self.ends(process, code)
            self.assertIn("of slow " + ("succeeded" if code == OK else "failed"), out)
            self.assertNotIn("left run", out)
            for name in ("a.here", "a.go"):
                (self.dir / name).unlink()
        self.assertIn("exit code 3", out)

    def test_paused_run_says_so_and_how_it_goes_on(self):
        process = self.start("run", self.write(
            "two.yaml", f"version: 1\ntasks:\n  a: {{run: '{gate('a')}'}}\n"
            "  b: {needs: [a], run: 'true'}\n"))
        self.until_exists("a.here")
        self.hw("runs", "pause", "@last")
        self.until_said(process, "run 1 is paused: what runs goes on")
        self.assertIn("runs resume 1`", self.text(process))
        self.write("a.go", "")
        self.until(lambda: self.states()["a"] == "succeeded", "a has ended")
        self.assertEqual(self.states()["b"], "ready")
        self.hw("runs", "resume", "1")
        out = self.ends(process, OK)
        self.assertEqual(out.count("is paused"), 1, out)

    def test_parameters_and_input_reach_the_run(self):
        self.write("p.yaml", "version: 1\nname: p\nparams: {n: 1, who: nobody}\n"
                             "tasks: {t: {run: 'cat \"$HEADWORKS_INPUT\"'}}\n")
        self.write("in.json", '{"day": "2026-01-02"}')
        self.hw("run", "p.yaml", "-p", "n=5", "-p", "who=ann=bob", "--input", "@in.json")
        stored = self.json("runs", "show", "@last")["input"]
        self.assertEqual(stored["params"], {"n": 5, "who": "ann=bob"})
        self.assertEqual(stored["input"], {"day": "2026-01-02"})
        for args in (["-p", "m=1"], ["-p", "n=x"], ["-p", "n"], ["--input", "[1]"],
                     ["--input", "{"]):
            done = self.hw("run", "p.yaml", *args, code=USAGE)
            self.assertTrue(done.stderr.startswith("headworks: "), done.stderr)
        self.hw("run", "p.yaml", "--input", "@missing.json", code=NOT_FOUND)

    def test_format_is_refused_where_there_is_no_value_to_print(self):
        self.write("chain.yaml", CHAIN)
        for command in ("completion bash", "config docs", "workflow schema", "up", "worker",
                        "worker token create", "runner", "workflow fmt chain.yaml",
                        "workflow show chain.yaml --graph text"):
            for form in ("json", "yaml", "table", "bogus"):
                self.assertIn("prints a text as it is",
                              self.hw(*command.split(), "-o", form, code=USAGE).stderr)
        self.env["HEADWORKS_FORMAT"] = "json"
        self.assertIn("_headworks", self.hw("completion", "bash").stdout)
        self.assertEqual(self.json("workflow", "fmt", "chain.yaml", "--check", code=FAILED),
                         ["chain.yaml"])
        self.assertFalse(self.store.exists())

    def test_known_start_key_is_said_so(self):
        self.write("chain.yaml", CHAIN)
        self.assertEqual(self.hw("run", "chain.yaml", "--start-key", "k").stderr, "")
        said = self.hw("run", "chain.yaml", "--start-key", "k").stderr
        self.assertEqual(said, "start key k has started run 1 before: nothing new is started\n")

    def test_start_key_makes_one_run(self):
        self.write("chain.yaml", CHAIN)
        first = self.json("run", "chain.yaml", "--start-key", "k")
        again = self.json("run", "chain.yaml", "--start-key", "k")
        self.assertEqual(first["id"], again["id"])
        self.assertEqual(len(self.json("runs", "list")), 1)

    def test_name_replaces_the_files(self):
        self.write("chain.yaml", CHAIN)
        self.assertEqual(self.json("run", "chain.yaml", "--name", "other")["workflow"], "other")

    def test_detach_needs_an_engine_that_is_up(self):
        self.write("chain.yaml", CHAIN)
        done = self.hw("run", "chain.yaml", "--detach", code=UNAVAILABLE)
        self.assertIn("headworks up", done.stderr)
        self.assertIn(str(self.store), done.stderr)
        self.engine_up()
        run = self.json("run", "chain.yaml", "--detach")
        self.until(lambda: self.run_state(run["run"]) == "succeeded", "the engine runs it")

    def test_resume_without_an_unfinished_run_is_not_found(self):
        self.write("chain.yaml", CHAIN)
        self.hw("run", "chain.yaml")
        done = self.hw("run", "chain.yaml", "--resume", code=NOT_FOUND)
        self.assertIn("no unfinished run", done.stderr)

    def test_what_is_wrong_with_the_command_line_is_said(self):
        for args, part in [(["rnu"], "did you mean 'run'?"),
                           (["runs", "lst"], "did you mean 'list'?"),
                           (["runs", "list", "--limt", "3"], "did you mean '--limit'?"),
                           ([], "headworks needs a command: run, runs, "),
                           (["runs"], "headworks runs needs a command: list, show, "),
                           (["runs", "ls"], "headworks runs has no command 'ls'; it has list, show, "),
                           (["help"], "did you mean `headworks --help`?"),
                           (["runs", "help"], "did you mean `headworks runs --help`?"),
                           (["version"], "did you mean `headworks --version`?"),
                           (["flow.yaml"], "did you mean `headworks run flow.yaml`?"),
                           (["-v"], "headworks has no option -v"),
                           (["run", "x.yaml", "--params", "n=2"],
                            "did you mean '--param'? `headworks run --help` shows what there is\n"),
                           (["run", "x.yaml", "n=2"],
                            "headworks run does not take 'n=2'; a parameter is given as -p n=2; "),
                           (["runs", "show", "1", "a"], "headworks runs show does not take 'a'; "),
                           (["runs", "show"], "headworks runs show: run is required; "
                                              "`headworks runs show --help` shows what there is"),
                           (["run"], "file"),
                           (["run", "x.yaml", "--resume", "--detach"], "excludes")]:
            done = self.hw(*args, code=USAGE)
            self.assertTrue(done.stderr.startswith("headworks: "), done.stderr)
            self.assertIn(part, done.stderr)
            self.assertEqual(done.stdout, "")

    def test_faulty_file_is_usage_and_a_missing_one_not_found(self):
        self.write("bad.yaml", "version: 1\nname: bad\ntasks:\n  a: {run: x, need: [b]}\n"
                               "  c: {run: x, needs: [d]}\n")
        done = self.hw("run", "bad.yaml", code=USAGE)
        self.assertIn("bad.yaml:4:", done.stderr)
        self.assertIn("bad.yaml:5:", done.stderr, "all faults at once")
        self.hw("run", "missing.yaml", code=NOT_FOUND)

    def test_version_and_help_open_no_store(self):
        self.env["HEADWORKS_STORE"] = "/proc/no/such/place.db"
        self.assertRegex(self.hw("--version").stdout, r"^headworks \d+\.\d+\.\d+\n$")
        self.assertIn("Exit codes: 0 ok, 1 run failed", self.hw("--help").stdout)
        self.assertIn("--dry-run", self.hw("run", "--help").stdout)

    def test_state_has_an_absolute_place_or_none(self):
        self.write("chain.yaml", CHAIN)
        for name in ("HEADWORKS_STORE", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            self.env.pop(name, None)
        home = pwd.getpwuid(os.geteuid()).pw_dir
        for variables in ({}, {"HOME": ""}, {"HOME": "here"}, {"XDG_STATE_HOME": "here"},
                          {"HOME": ".", "XDG_STATE_HOME": "./here", "XDG_CONFIG_HOME": "here"}):
            self.env.pop("HOME", None)
            self.env.update(variables)
            self.assertIn(f"{home}/.local/state/headworks/headworks.db",
                          self.hw("config", "show").stdout, variables)
        self.assertEqual(os.listdir(self.dir), ["chain.yaml"])

    def test_user_without_a_home_is_told_to_name_the_store(self):
        if os.geteuid() != 0:
            self.skipTest("only root can be somebody whom nobody knows")
        self.write("chain.yaml", CHAIN)
        program = self.program_of_others()
        for args, code in ((["run", "chain.yaml"], USAGE), (["runs", "list"], USAGE),
                           (["runs", "list", "--store", "/dev/null/none"], NOT_FOUND)):
            done = subprocess.run([program, *args], cwd="/", env={}, text=True,
                                  capture_output=True, timeout=PATIENCE, user=54321, group=54321,
                                  extra_groups=[])
            self.assertEqual(done.returncode, code, done.stderr)
            if code == USAGE:
                self.assertIn("the system knows no home of user 54321; name the store, with "
                              "--store or HEADWORKS_STORE", done.stderr)

    def test_empty_path_is_the_tasks_and_not_the_programs(self):
        self.write("chain.yaml", "version: 1\ntasks:\n  a: {run: '/bin/true; echo $PATH.'}\n"
                                 "  b: {exec: [no-such-program], needs: [a]}\n")
        for path in ("", None):
            self.env["PATH"] = path
            if path is None:
                del self.env["PATH"]
            out = self.hw("run", "chain.yaml", code=FAILED).stdout
            self.assertIn("task a succeeded", out)
            self.assertRegex(out, "task b failed in .*: spawn: command not found: no-such-program")
            self.assertIn("spawn: command not found: no-such-program",
                          self.hw("runs", "show", "@last").stdout)

    def test_what_a_skipped_task_skips_is_told_with_it(self):
        self.write("w.yaml", "version: 1\ntasks:\n  a: {run: 'true', when: 'false'}\n"
                             "  b: {run: 'true', needs: [a]}\n")
        self.assertIn("task b skipped: a is skipped (trigger_rule)\n",
                      self.hw("run", "w.yaml").stdout)

    def test_store_that_cannot_be_opened_is_named(self):
        self.write("chain.yaml", CHAIN)
        done = self.hw("run", "chain.yaml", "--store", "/proc/no/such/place.db", code=UNAVAILABLE)
        self.assertIn("/proc/no/such/place.db", done.stderr)

    def test_large_run_is_told_in_counts(self):
        tasks = "".join(f"  t{n}: {{exec: [/bin/true]}}\n" for n in range(501))
        self.write("wide.yaml", "version: 1\nname: wide\ntasks:\n" + tasks)
        out = self.hw("run", "wide.yaml").stdout
        self.assertIn("501 of 501 tasks over", out)
        self.assertNotIn("task t1 started", out)

    def into_closed_pipe(self, *args, code):
        """A command whose reader has left already."""
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([self.program, *args], cwd=self.dir, env=self.env, text=True,
                              stdout=writer, stderr=subprocess.PIPE, timeout=PATIENCE)
        os.close(writer)
        self.assertEqual(done.returncode, code, f"{args}\n{done.stderr}")
        self.assertNotIn("cannot write", done.stderr, args)
        return done

    def test_reader_that_leaves_does_not_end_the_run(self):
        self.write("chain.yaml", CHAIN)
        self.write("broken.yaml", BROKEN)
        for file, code in (("chain.yaml", READER_LEFT), ("broken.yaml", FAILED)):
            self.assertEqual(self.into_closed_pipe("run", file, code=code).stderr, "")
        self.assertEqual([run["state"] for run in self.json("runs", "list")],
                         ["failed", "succeeded"])

    def test_output_that_is_lost_is_said_and_no_success(self):
        self.write("chain.yaml", CHAIN)
        self.write("broken.yaml", BROKEN)
        self.hw("run", "chain.yaml")

        def lost(command, where, code):
            done = subprocess.run(["/bin/sh", "-c", f"exec {self.program} {command} {where}"],
                                  cwd=self.dir, env=self.env, text=True, capture_output=True,
                                  timeout=PATIENCE)
            self.assertEqual(done.returncode, code, f"{command} {where}\n{done.stderr}")
            self.assertIn("headworks: cannot write to standard output: ", done.stderr)
            return done.stderr
        for command in ("run chain.yaml", "run chain.yaml -o json", "run chain.yaml --dry-run",
                        "runs list", "runs list -o yaml", "runs show 1", "runs logs 1",
                        "runs logs 1 -f", "runs logs 1 --tail 1", "runs why 1 a", "config show",
                        "workflow schema", "workflow show chain.yaml", "completion bash",
                        "--version", "--help", "runs --help", "explain HW1001"):
            self.assertIn("No space left on device", lost(command, ">/dev/full", UNAVAILABLE))
            self.into_closed_pipe(*command.split(), code=READER_LEFT)
        for command in ("run chain.yaml", "runs list", "--version"):
            self.assertIn("Bad file descriptor", lost(command, ">&-", UNAVAILABLE))
        lost("run broken.yaml", ">/dev/full", FAILED)
        self.hw("db", "check")

    def start_flooded(self, *args):
        """With an output that nobody reads, beyond what a pipe holds."""
        errors = open(self.dir / "errors", "w+")
        self.addCleanup(errors.close)
        process = subprocess.Popen([self.program, *args], cwd=self.dir, env=self.env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                                   start_new_session=True)
        process.output = process.stdout
        self.addCleanup(self._end, process)
        return process

    def errors(self):
        return (self.dir / "errors").read_text()

    FLOOD = ("version: 1\nname: flood\ntasks:\n"
             "  a: {run: 'seq 400000; %s', grace: 60s}\n"
             "  b: {run: 'echo b; touch b.ran', needs: [a]}\n")

    def test_run_goes_on_while_the_reader_of_its_output_stalls(self):
        self.write("flood.yaml", self.FLOOD % gate("a"))
        process = self.start_flooded("run", "flood.yaml")
        self.until_exists("a.here")
        self.write("a.go", "")
        self.until(lambda: self.run_state() == "succeeded", "the run ends")
        self.assertIsNone(process.poll(), "its output was not read yet")
        lines = process.stdout.read().decode().splitlines()
        self.assertEqual(process.wait(timeout=PATIENCE), OK, self.errors())
        self.assertEqual([line for line in lines if line.startswith("a | ")],
                         [f"a | {n}" for n in range(1, 400_001)])
        self.assertIn("run 1 of flood succeeded in", lines[-1])

    def test_signals_are_heard_while_the_reader_of_the_output_stalls(self):
        self.write("flood.yaml", self.FLOOD % gate("a"))
        process = self.start_flooded("run", "flood.yaml")
        self.until_exists("a.here")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=PATIENCE), FAILED, self.errors())
        self.assertEqual(self.run_state(), "cancelled")
        self.assertIn("the reader of this output takes no more: `headworks runs logs 1` has",
                      self.errors())
        follower = self.start_flooded("runs", "logs", "1", "-f")
        self.assertEqual(os.read(follower.stdout.fileno(), 4), b"a | ")
        follower.send_signal(signal.SIGINT)
        self.assertEqual(follower.wait(timeout=PATIENCE), OK, self.errors())

    def test_second_interrupt_leaves_at_once_while_the_reader_of_the_output_stalls(self):
        self.write("flood.yaml", self.FLOOD % f"trap \"\" TERM; {gate('a')}")
        process = self.start_flooded("run", "flood.yaml")
        self.until_exists("a.here")
        process.send_signal(signal.SIGINT)
        self.until(lambda: self.json("runs", "show", "1")["cancel_requested"], "it is heard")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=PATIENCE), INTERRUPTED, self.errors())


class TerminalTest(Case):
    def run_on_terminal(self, *args, rows=24, columns=100, go_when=None):
        """The output of a command on a terminal of that size.

        `go_when`: the file "go" is made when a frame matches all of these expressions, or at the
        end of all patience.
        """
        parent, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        process = subprocess.Popen([self.program, *args], cwd=self.dir, env=self.env, stdin=child,
                                   stdout=child, stderr=child, start_new_session=True)
        os.close(child)
        output = b""
        end = time.monotonic() + PATIENCE
        try:
            while chunk := os.read(parent, 65536):
                output += chunk
                frame = self.plain(output.decode(errors="replace").rpartition("\x1b[?7l")[2])
                if go_when and (all(re.search(part, frame) for part in go_when)
                                or time.monotonic() > end):
                    self.write("go", "")
        except OSError:
            pass  # how Linux says that the other side is closed
        os.close(parent)
        process.wait(timeout=PATIENCE)
        return output.decode()

    def test_run_is_drawn_in_place(self):
        self.write("chain.yaml", CHAIN)
        out = self.run_on_terminal("run", "chain.yaml")
        self.assertRegex(out, r"\x1b\[\d+A", "goes up and draws again")
        last = out[out.rindex("chain  run 1"):]
        self.assertIn("2/2 tasks", last)
        self.assertIn("✓", last)
        self.assertIn("hello from a", last, "the last line of a")
        self.assertIn("\x1b[32m", last)

    def test_no_color_is_respected(self):
        self.write("chain.yaml", CHAIN)
        self.env["NO_COLOR"] = "1"
        out = self.run_on_terminal("run", "chain.yaml")
        self.assertNotRegex(out, r"\x1b\[\d*m")
        self.assertRegex(out, r"\x1b\[\d+A")

    def last_screen(self, *args, **size):
        """The lines that are left on the terminal, without colours."""
        out = self.run_on_terminal(*args, **size)
        return self.lines_of(out[out.rindex("\x1b[?7l"):])

    @staticmethod
    def plain(frame):
        return re.sub(r"\x1b\[[?\d]*[A-Za-z]", "", frame).replace("\r", "")

    def lines_of(self, frame):
        return self.plain(frame).splitlines()

    LONG = "{run: 'until test -e go; do sleep 0.05; done', priority: 9}"

    TREE = """
version: 1
name: tree
tasks:
  root: {run: echo rooted}
  left: {run: echo on the left, needs: [root]}
  right: {run: "echo on the right; exit 3", needs: [root], allow_failure: true}
  join: {run: echo joined, needs: [left, right]}
  alone: {run: 'true'}
"""

    def test_run_is_a_tree_with_states_times_and_last_lines(self):
        self.write("tree.yaml", self.TREE)
        lines = self.last_screen("run", "tree.yaml")
        time = r"[\d.]+(us|ms|s)"
        for line, expected in zip(lines, [
                rf"tree  run 1  succeeded  5/5 tasks  {time}$",
                rf"├─ ✓ root +succeeded +{time} +rooted",
                rf"│  ├─ ✓ left +succeeded +{time} +on the left",
                rf"│  │  └─ ✓ join \(\+right\) +succeeded +{time} +joined",
                rf"│  └─ ✗ right +failed +{time} +exit code 3 \(allowed\): on the right",
                rf"└─ ✓ alone +succeeded +{time}$",
                rf"run 1 of tree succeeded in {time}$"], strict=True):
            self.assertRegex(line, "^" + expected)

    def test_lines_keep_to_the_width_of_the_terminal(self):
        self.write("tree.yaml", self.TREE.replace("on the left", "on the left " * 20))
        for columns in (40, 80, 132):
            lines = self.last_screen("run", "tree.yaml", columns=columns)
            self.assertEqual([line for line in lines if len(line) > columns], [])
            self.assertRegex("\n".join(lines), "left .*…")
            self.assertEqual("succeeded" in lines[1], columns > 40, lines)

    def test_terminal_without_utf8_gets_ascii(self):
        self.env["LANG"] = "C"
        self.write("tree.yaml", self.TREE)
        self.assertTrue("\n".join(self.last_screen("run", "tree.yaml")).isascii())

    def test_run_that_is_higher_than_the_screen_is_folded(self):
        tasks = "".join(f"  t{n}: {{exec: [/bin/true]}}\n" for n in range(30))
        self.write("wide.yaml", "version: 1\nname: wide\ntasks:\n" + tasks)
        out = self.run_on_terminal("run", "wide.yaml", rows=20)
        self.assertRegex(out, r"30 tasks .*succeeded.*t0 … t29")
        for up in map(int, re.findall(r"\x1b\[(\d+)A", out)):
            self.assertLess(up, 20, "never above the screen")

    def test_run_that_no_folding_makes_fit_is_counted(self):
        tasks = "".join(f"  t{n}: {{exec: [/bin/true], needs: [{f't{n - 1}' if n else ''}]}}\n"
                        for n in range(30))
        self.write("deep.yaml", "version: 1\nname: deep\ntasks:\n" + tasks)
        out = self.run_on_terminal("run", "deep.yaml", rows=20)
        self.assertRegex(out, r"succeeded +30")
        for up in map(int, re.findall(r"\x1b\[(\d+)A", out)):
            self.assertLess(up, 20, "never above the screen")

    def test_large_run_is_counted_with_what_failed_and_what_runs(self):
        tasks = "".join(f"  t{n}: {{exec: [/bin/true]}}\n" for n in range(501))
        self.write("wide.yaml", "version: 1\nname: wide\ntasks:\n  bad: {run: exit 3}\n"
                                f"  long: {self.LONG}\n{tasks}")
        out = self.run_on_terminal("run", "wide.yaml", rows=20, go_when=[r"▶ long +running +\d"])
        frames = [self.plain(frame) for frame in out.split("\x1b[?7l")]
        self.assertTrue(any(re.search(r"▶ long +running +\d", frame) for frame in frames), out)
        self.assertRegex(frames[-1], r"succeeded +502\n")
        self.assertRegex(frames[-1], r"✗ bad +failed +\S+ +exit code 3\n")
        for up in map(int, re.findall(r"\x1b\[(\d+)A", out)):
            self.assertLess(up, 20, "never above the screen")

    def test_large_run_shows_both_what_failed_and_what_runs(self):
        tasks = "".join(f"  t{n}: {{run: exit 3, priority: 9}}\n" for n in range(60))
        tasks += "".join(f"  u{n}: {{exec: [/bin/true], needs: [long]}}\n" for n in range(450))
        self.write("wide.yaml", "version: 1\nname: wide\ntasks:\n"
                   f"  long: {self.LONG}\n{tasks}")
        out = self.run_on_terminal("run", "wide.yaml", rows=16,
                                   go_when=["▶ long", r"(?s)(✗ t.*){6}"])
        frames = [self.lines_of(frame) for frame in out.split("\x1b[?7l")]
        full = [frame for frame in frames
                if any("✗ t" in line for line in frame) and any("▶ long" in line for line in frame)]
        self.assertGreater(len(full), 0, frames[-1])
        self.assertGreater(len([line for line in full[-1] if "✗ t" in line]), 5)

    NOISY = r"""
version: 1
name: noisy
tasks:
  a:
    run: |
      printf 'safe \033[2J\033]0;title\a\033[31mred\033[0m \b\001 tab\there\r\n'
      exit 1
"""
    SHOWN = "safe red ^H^A tab\there"

    def test_what_tasks_print_does_nothing_to_the_terminal(self):
        self.write("noisy.yaml", self.NOISY)
        out = self.run_on_terminal("run", "noisy.yaml")
        self.assertIn(f"  a | {self.SHOWN}\r\n", out)
        self.assertRegex(out, r"exit code 1: safe red \^H\^A tab here")
        self.env["TERM"] = "dumb"
        plain = self.run_on_terminal("run", "noisy.yaml")
        self.assertIn(f"\na | {self.SHOWN}\r\n", plain)
        logs = self.run_on_terminal("runs", "logs", "@last")
        self.assertEqual(logs, f"a | {self.SHOWN}\r\n")
        for text in (out, plain, logs):
            for sequence in ("\x1b[2J", "\x1b]0", "\x1b[31mred", "\b", "\x01"):
                self.assertNotIn(sequence, text)

    def test_logs_into_a_pipe_are_the_bytes_as_they_were(self):
        self.write("noisy.yaml", self.NOISY)
        self.hw("run", "noisy.yaml", code=FAILED)
        done = subprocess.run([self.program, "runs", "logs", "1", "a"], env=self.env,
                              capture_output=True, timeout=PATIENCE)
        self.assertEqual(done.stdout, b"safe \033[2J\033]0;title\a\033[31mred\033[0m \b\001 tab\there\r\n")

    def test_dumb_terminal_gets_lines(self):
        self.write("chain.yaml", CHAIN)
        self.env["TERM"] = "dumb"
        out = self.run_on_terminal("run", "chain.yaml")
        self.assertNotIn("\x1b", out)
        self.assertIn("task a started", out)


if __name__ == "__main__":
    harness.main()
