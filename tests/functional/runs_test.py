"""`headworks runs`: looking at runs, and changing their course."""
import json
import re

import harness
from harness import (FAILED, NOT_FOUND, OK, REFUSED, USAGE, Case, gate)

OK_FLOW = "version: 1\nname: fine\ntasks:\n  a: {run: echo one}\n  b: {run: echo two, needs: [a]}\n"
BAD_FLOW = ("version: 1\nname: bad\ntasks:\n  first: {run: echo x >> first.ran}\n"
            "  a: {run: 'echo try; echo x >> a.ran; test -e fixed', needs: [first]}\n"
            "  b: {run: echo never, needs: [a]}\n")

GRID_FLOW = ("version: 1\nname: grid\ntasks:\n  first: {run: echo x >> first.ran}\n"
             "  m:\n    needs: [first]\n    matrix: {n: [1, 2]}\n"
             "    run: |\n      echo ${{ matrix.n }}; [ ${{ matrix.n }} = 1 ] || echo more\n"
             "      echo ${{ matrix.n }} >> m.ran; test -e fixed\n"
             "  after: {run: echo x >> after.ran, needs: [m]}\n")


class LookTest(Case):
    def setUp(self):
        super().setUp()
        self.write("fine.yaml", OK_FLOW)
        self.write("bad.yaml", BAD_FLOW)

    def test_list_shows_newest_first_and_filters(self):
        self.hw("workflow", "register", "fine.yaml")
        self.assertEqual(self.json("runs", "list"), [])
        first = self.json("run", "fine.yaml")["run"]
        bad = self.json("run", "bad.yaml", code=FAILED)["run"]
        last = self.json("run", "fine.yaml")["run"]

        def listed(*args):
            return [run["run"] for run in self.json("runs", "list", *args)]
        self.assertEqual(listed(), [last, bad, first])
        self.assertEqual(listed("--state", "failed"), [bad])
        self.assertEqual(listed("--workflow", "fine"), [last, first])
        self.assertEqual(listed("--limit", "1"), [last])
        self.assertEqual(self.json("runs", "list", "--state", "pending,running,stuck"), [])
        table = self.hw("runs", "list").stdout
        self.assertRegex(table, r"RUN +ID +WORKFLOW +STATE +TASKS +CREATED +TOOK\n" + str(last) + " ")
        self.assertIn("1 failed", table)
        done = self.hw("runs", "list", "--state", "faild", code=USAGE)
        self.assertIn("did you mean 'failed'?", done.stderr)

    def test_run_is_found_by_number_id_prefix_and_last(self):
        self.hw("run", "fine.yaml")
        run = self.json("runs", "show", "@last")
        for reference in (run["id"], run["id"][:13], "1"):
            self.assertEqual(self.json("runs", "show", reference)["id"], run["id"])
        self.assertIn("no run \"latest\": a run is named by its number, its id, 4 or more of its first "
                      "characters, or @last", self.hw("runs", "show", "latest", code=NOT_FOUND).stderr)
        self.assertIn("no such runs in", self.hw("runs", "list", "--workflow", "none").stderr)
        done = self.hw("runs", "show", "99", code=NOT_FOUND)
        self.assertIn(str(self.store), done.stderr, "it may be in another store")
        self.hw("runs", "show", "ffffffff", code=NOT_FOUND)

    def test_show_has_tasks_attempts_events_and_outputs(self):
        self.write("out.yaml", "version: 1\nname: out\ntasks:\n  a:\n    run: |\n"
                               "      echo '{\"k\": [1, 2]}' > \"$HEADWORKS_OUTPUT\"\n")
        self.hw("run", "out.yaml")
        run = self.json("runs", "show", "@last")
        self.assertEqual(run["tasks"][0]["output"], {"k": [1, 2]})
        self.assertEqual(run["attempts"][0]["verdict"], "succeeded")
        self.assertEqual(run["attempts"][0]["try"], 1)
        self.assertEqual([(event["kind"], event["at"]) for event in run["events"]],
                         [("created", run["created_at"]), ("started", run["started_at"]),
                          ("finished", run["finished_at"])])
        self.assertEqual(run["events"][-1]["detail"], "succeeded")
        self.assertTrue(run["created_at"] <= run["started_at"] <= run["finished_at"])
        self.assertIn("tasks:", self.hw("runs", "show", "1", "-o", "yaml").stdout)
        self.assertRegex(self.hw("runs", "show", "1").stdout, r"a +succeeded +1 ")

    def test_logs_of_all_of_one_of_an_attempt_and_the_tail(self):
        self.write("flaky.yaml", "version: 1\nname: flaky\ntasks:\n  a:\n    run: |\n"
                                 "      echo try $HEADWORKS_TRY\n      test $HEADWORKS_TRY -ge 3\n"
                                 "    retry: {max_attempts: 3, initial: 10ms}\n"
                                 "  b: {run: echo done, needs: [a]}\n")
        self.hw("run", "flaky.yaml")
        self.assertEqual(self.hw("runs", "logs", "1").stdout,
                         "a | try 1\na | try 2\na | try 3\nb | done\n")
        self.assertEqual(self.hw("runs", "logs", "1", "a").stdout, "try 1\ntry 2\ntry 3\n")
        self.assertEqual(self.hw("runs", "logs", "1", "a", "--attempt", "2").stdout, "try 2\n")
        self.assertEqual(self.hw("runs", "logs", "1", "--tail", "2").stdout, "a | try 3\nb | done\n")
        lines = [json.loads(line) for line in
                 self.hw("runs", "logs", "1", "-o", "json").stdout.splitlines()]
        self.assertEqual([line["text"] for line in lines], ["try 1", "try 2", "try 3", "done"])
        self.assertEqual(lines[0]["stream"], "stdout")
        self.hw("runs", "logs", "1", "a", "--attempt", "4", code=NOT_FOUND)
        self.hw("runs", "logs", "1", "--attempt", "1", code=USAGE)
        done = self.hw("runs", "logs", "1", "aa", code=NOT_FOUND)
        self.assertIn("did you mean 'a'?", done.stderr)

    def test_name_of_a_matrix_means_all_its_instances(self):
        self.write("grid.yaml", GRID_FLOW)
        self.hw("run", "grid.yaml", code=FAILED)
        lines = ["m[1] | 1", "m[2] | 2", "m[2] | more"]
        self.assertEqual(sorted(self.hw("runs", "logs", "1", "m").stdout.splitlines()), lines)
        self.assertEqual(len(self.hw("runs", "logs", "1", "m", "--tail", "2").stdout.splitlines()), 2)
        self.assertEqual(self.hw("runs", "logs", "1", "m[2]", "--tail", "1").stdout, "more\n")
        self.assertIn("such as m[1]",
                      self.hw("runs", "logs", "1", "m", "--attempt", "1", code=USAGE).stderr)
        self.assertRegex(self.hw("runs", "why", "1", "m").stdout,
                         r"task m\[1\] of run 1 is failed.*\n(.+\n)+\ntask m\[2\] of run 1 is failed")
        self.assertEqual([task["task"] for task in self.json("runs", "why", "1", "m")],
                         ["m[1]", "m[2]"])
        for command in (["logs", "1", "mm"], ["why", "1", "mm"], ["mark", "1", "mm", "failed"],
                        ["rerun", "1", "--from", "mm"], ["rerun", "1", "--from", "mm", "--detach"]):
            done = self.hw("runs", *command, code=NOT_FOUND)
            self.assertIn("workflow grid has no task 'mm', did you mean 'm'?", done.stderr)

    def test_logs_as_values_are_read_line_by_line(self):
        self.write("two.yaml", f"version: 1\nname: two\ntasks:\n"
                               f"  a: {{run: 'echo \"a: [1\"; echo; {gate('a')}; echo after'}}\n")
        runner = self.start("run", "two.yaml")
        self.until_exists("a.here")
        followers = {form: self.start("runs", "logs", "@last", "-f", "-o", form)
                     for form in ("json", "yaml")}
        for follower in followers.values():
            self.until_said(follower, "a: [1")
        self.write("a.go", "")
        self.ends(runner, OK)
        lines = [json.loads(line) for line in self.ends(followers["json"], OK).splitlines()]
        self.assertEqual([line["text"] for line in lines], ["a: [1", "", "after"])
        documents = self.ends(followers["yaml"], OK).split("---\n")[1:]
        self.assertEqual(len(documents), 3)
        for line, document in zip(lines, documents):
            read = dict(pair.split(": ", 1) for pair in document.splitlines())
            self.assertEqual({key: json.loads(value) for key, value in read.items()}, line)

    def test_logs_follow_until_the_run_ends(self):
        self.write("slow.yaml", f"version: 1\nname: slow\ntasks:\n"
                                f"  a: {{run: 'echo before; {gate('a')}; echo after'}}\n")
        runner = self.start("run", "slow.yaml")
        self.until_exists("a.here")
        follower = self.start("runs", "logs", "@last", "-f")
        self.until_said(follower, "a | before")
        self.write("a.go", "")
        self.assertEqual(self.ends(follower, OK), "a | before\na | after\n")
        self.ends(runner, OK)


class CommandTest(Case):
    def setUp(self):
        super().setUp()
        self.write("bad.yaml", BAD_FLOW)
        self.write("slow.yaml", f"version: 1\nname: slow\ntasks:\n  a: {{run: '{gate('a')}'}}\n"
                                f"  b: {{run: echo b, needs: [a]}}\n")

    def test_cancel_from_another_terminal(self):
        runner = self.start("run", "slow.yaml")
        self.until_exists("a.here")
        self.hw("runs", "cancel", "@last")
        self.assertIn("run 1 of slow cancelled", self.ends(runner, FAILED))
        self.assertEqual(self.states(), {"a": "cancelled", "b": "cancelled"})
        self.assertEqual(self.hw("runs", "cancel", "@last", code=REFUSED).stdout, "")
        self.hw("runs", "cancel", "7", code=NOT_FOUND)

    def test_pause_lets_live_tasks_end_and_resume_goes_on(self):
        runner = self.start("run", "slow.yaml")
        self.until_exists("a.here")
        self.hw("runs", "pause", "@last")
        self.assertIn("paused", self.hw("runs", "list").stdout)
        self.write("a.go", "")
        self.until(lambda: self.states()["a"] == "succeeded", "a ends")
        why = self.json("runs", "why", "@last", "b")
        self.assertIn("the run is paused", "\n".join(why["why"]))
        self.assertTrue(why["engine_live"])
        self.hw("runs", "resume", "@last")
        self.ends(runner, OK)

    def test_rerun_of_what_failed_keeps_what_succeeded(self):
        self.hw("run", "bad.yaml", code=FAILED)
        self.write("fixed", "")
        out = self.hw("runs", "rerun", "@last", "--failed").stdout
        self.assertIn("run 1 of bad succeeded", out)
        self.assertRegex(out, r"^rerunning \d tasks of run 1, keeping 1\n")
        self.assertNotIn("first", out, "what was kept is not told again")
        self.assertEqual(out.count("task a started"), 1, out)
        self.assertNotIn("failed", out)
        self.assertEqual(self.lines("first.ran"), ["x"])
        self.assertEqual(self.lines("a.ran"), ["x", "x"])

    def test_rerun_and_mark_of_a_matrix_are_of_all_its_instances(self):
        self.write("grid.yaml", GRID_FLOW)
        self.hw("run", "grid.yaml", code=FAILED)
        self.assertIn("run 1: mark done, now running",
                      self.hw("runs", "mark", "1", "m", "success").stdout)
        self.hw("run", "grid.yaml", "--resume")
        self.assertEqual(self.states(), {"first": "succeeded", "m[1]": "succeeded",
                                         "m[2]": "succeeded", "after": "succeeded"})
        self.assertEqual((sorted(self.lines("m.ran")), self.lines("after.ran")), (["1", "2"], ["x"]))
        self.write("fixed", "")
        self.hw("runs", "rerun", "1", "--from", "m")
        self.assertEqual((self.lines("first.ran"), sorted(self.lines("m.ran")),
                          self.lines("after.ran")), (["x"], ["1", "1", "2", "2"], ["x", "x"]))
        self.assertIn("from m", [event["detail"] for event in
                                 self.json("runs", "show", "1")["events"]])

    def test_rerun_from_a_task_and_of_all(self):
        self.write("fixed", "")
        self.hw("run", "bad.yaml")
        self.hw("runs", "rerun", "1", "--from", "a")
        self.assertEqual((len(self.lines("first.ran")), len(self.lines("a.ran"))), (1, 2))
        self.hw("runs", "rerun", "1", "--all")
        self.assertEqual((len(self.lines("first.ran")), len(self.lines("a.ran"))), (2, 3))
        self.hw("runs", "rerun", "1", "--from", "zzz", code=NOT_FOUND)
        self.hw("runs", "rerun", "1", "--from", "a", "--all", code=USAGE)

    def test_detached_rerun_waits_for_an_engine(self):
        self.hw("run", "bad.yaml", code=FAILED)
        self.write("fixed", "")
        done = self.hw("runs", "rerun", "1", "--detach")
        self.assertIn("headworks up", done.stderr)
        self.assertEqual(self.run_state(), "running")
        why = self.json("runs", "why", "1", "a")
        self.assertFalse(why["engine_live"])
        self.assertIn("no engine is running", "\n".join(why["why"]))
        self.engine_up()
        self.until(lambda: self.run_state() == "succeeded", "the engine finishes it")

    def leave_a_run(self, *args):
        """A run that nobody works on."""
        runner = self.start("run", "slow.yaml", *args)
        self.until_exists("a.here")
        runner.kill()
        runner.wait()
        (self.dir / "a.here").unlink()

    def test_command_for_a_run_that_nobody_works_on_says_how_it_goes_on(self):
        self.leave_a_run()
        how = (f"no engine is running on this store: `headworks run {self.dir}/slow.yaml --resume` "
               "continues this run, `headworks up` continues all runs")
        for command in (["pause", "1"], ["resume", "1"]):
            self.assertIn(how, self.hw("runs", *command).stderr)
        for args in ([], ["--failed"], ["--all"], ["--detach"]):
            done = self.hw("runs", "rerun", "1", *args, code=REFUSED)
            self.assertIn(f"run 1 is not over, so there is nothing to rerun; {how}", done.stderr)
        self.assertFalse((self.dir / "a.here").exists(), "what is refused starts nothing")
        self.write("a.go", "")
        self.hw("run", "slow.yaml", "--resume")
        self.assertEqual(self.run_state(), "succeeded")
        self.assertEqual(self.hw("runs", "rerun", "1", "--all").stderr, "")

    def test_cancel_of_a_run_that_nobody_works_on_is_complete(self):
        self.leave_a_run()
        done = self.hw("runs", "cancel", "1")
        self.assertEqual(done.stdout, "run 1: cancel done, now cancelled\n")
        self.assertEqual(done.stderr, "")

    def test_mark_is_not_taken_for_how_the_attempt_ended(self):
        self.hw("run", "bad.yaml", code=FAILED)
        self.assertRegex(self.hw("runs", "show", "1").stdout, r"(?m)^a +failed +1 +\S+ +exit code 1: try$")
        self.hw("runs", "mark", "1", "a", "success")
        self.assertRegex(self.hw("runs", "show", "1").stdout,
                         r"(?m)^a +succeeded +1 +- +marked; its last attempt: exit code 1$")
        self.hw("runs", "mark", "1", "b", "failed")
        shown = self.hw("runs", "show", "1").stdout
        self.assertRegex(shown, r"(?m)^b +failed +0 +- +marked$")
        out = self.hw("runs", "rerun", "1", "--from", "first", code=FAILED).stdout
        self.assertIn("task a failed: exit code 1", out)

    def test_rerun_forgets_how_the_last_attempt_ended(self):
        self.hw("run", "bad.yaml", code=FAILED)
        self.hw("runs", "rerun", "1", "--detach")
        self.assertRegex(self.hw("runs", "show", "1").stdout, r"(?m)^a +ready +0 +-$")

    def test_mark_without_an_engine_changes_the_outcome(self):
        self.hw("run", "bad.yaml", code=FAILED)
        self.hw("runs", "mark", "1", "a", "success")
        self.assertEqual(self.states()["a"], "succeeded")
        self.hw("runs", "mark", "1", "b", "skipped")
        self.assertEqual(self.states()["b"], "skipped")
        self.until(lambda: self.run_state() == "succeeded", "the outcome is computed again")
        events = self.json("runs", "show", "1")["events"]
        self.assertIn("mark", [event["kind"] for event in events])
        self.hw("runs", "mark", "1", "a", "great", code=USAGE)

    def test_mark_of_a_running_task_is_refused(self):
        runner = self.start("run", "slow.yaml")
        self.until_exists("a.here")
        self.hw("runs", "mark", "1", "a", "success", code=REFUSED)
        self.write("a.go", "")
        self.ends(runner, OK)

    def test_rerun_after_the_file_changed_says_which_version_it_keeps(self):
        self.hw("run", "bad.yaml", code=FAILED)
        self.write("fixed", "")
        self.assertNotIn("as it was", self.hw("runs", "rerun", "1").stderr)
        file = self.write("bad.yaml", BAD_FLOW + "  c: {run: echo new}\n")
        for more in ([], ["--detach"]):
            done = self.hw("runs", "rerun", "1", "--all", *more)
            self.assertIn(f"{file} is no longer as it was when run 1 started: the rerun keeps the "
                          f"version of the run; `headworks run {file}` starts a new run",
                          done.stderr)
            self.assertNotIn("task c", done.stdout)

    def test_rerun_names_no_file_that_the_run_may_not_be_of(self):
        self.hw("run", "bad.yaml", code=FAILED)
        self.write("fixed", "")
        other = self.write("other.yaml", OK_FLOW.replace("name: fine", "name: bad"))
        self.hw("run", other)
        note = self.hw("runs", "rerun", "1").stderr
        self.assertIn("workflow bad is another version than run 1 started with, since it was "
                      f"registered last from {other}: the rerun keeps the version of the run; "
                      f"`headworks run {other}` starts a new run of that one", note)
        self.assertNotIn("no longer as it was", note)

    def test_commands_for_a_run_by_another_name_have_that_name(self):
        file = self.write("bad.yaml", BAD_FLOW)
        self.hw("run", "bad.yaml", "--name", "special", code=FAILED)
        self.write("bad.yaml", BAD_FLOW + "  c: {run: echo new}\n")
        self.assertIn(f"`headworks run {file} --name special` starts a new run",
                      self.hw("runs", "rerun", "1", code=FAILED).stderr)
        self.leave_a_run("--name", "odd")
        self.assertIn(f"`headworks run {self.dir}/slow.yaml --name odd --resume` continues this run",
                      self.hw("runs", "pause", "@last").stderr)

    def test_run_of_another_file_of_the_name_is_continued_by_the_engine(self):
        self.leave_a_run()
        other = self.write("other.yaml", OK_FLOW.replace("name: fine", "name: slow"))
        self.hw("run", other)
        self.assertIn("no engine is running on this store: `headworks up` continues all runs",
                      self.hw("runs", "pause", "1").stderr)

    def test_why_of_a_run_explains_all_that_failed(self):
        self.write("two.yaml", """version: 1
name: two
tasks:
  a: {run: exit 3}
  b: {run: exit 4, allow_failure: true}
  c: {run: "true"}
  d: {needs: [a, b], run: "true"}
""")
        out = self.hw("run", "two.yaml", code=FAILED).stdout
        self.assertIn("task b failed (allowed) in", out)
        self.assertIn("task a failed in", out)
        out = self.hw("runs", "why", "@last").stdout
        self.assertRegex(out, r"task a of run 1 is failed(.*\n)+\ntask b of run 1 is failed")
        self.assertNotIn("task d", out)
        self.assertEqual([task["task"] for task in self.json("runs", "why", "@last")], ["a", "b"])
        self.assertIn("task b is failed (allowed, counts as success)",
                      self.hw("runs", "why", "@last", "d").stdout)
        self.assertRegex(self.hw("runs", "show", "@last").stdout, r"b +failed \(allowed\)")
        self.assertEqual(self.states()["b"], "failed")
        self.write("good.yaml", "version: 1\nname: good\ntasks: {a: {run: 'true'}}\n")
        self.hw("run", "good.yaml")
        self.assertIn("no task of run 2 failed", self.hw("runs", "why", "@last").stdout)
        self.assertEqual(self.json("runs", "why", "@last"), [])

    def test_why_says_what_failed(self):
        self.hw("run", "bad.yaml", code=FAILED)
        out = self.hw("runs", "why", "@last", "b").stdout
        self.assertIn("task b of run 1 is upstream_failed", out)
        self.assertIn("upstream task a is failed", out)
        self.assertIn("exit code 1", self.hw("runs", "why", "@last", "a").stdout)

    def test_what_the_timeout_of_the_run_ended_is_told_so(self):
        self.write("late.yaml", "version: 1\nname: late\ntimeout: 1s\ntasks:\n"
                                "  slow: {run: sleep 60}\n  after: {run: 'true', needs: [slow]}\n"
                                "finally:\n  tell:\n    when: run.reason == 'run_timeout'\n"
                                "    run: echo ${{ run.outcome }} ${{ run.reason }} "
                                "[${{ run.failed_tasks.join(', ') }}]\n")
        done = self.hw("run", "late.yaml", code=FAILED)
        self.assertIn("tell | failed run_timeout []\n", done.stdout)
        stopped = "the run's timeout of 1.0s (run_timeout)"
        self.assertRegex(done.stdout, r"task slow cancelled after \S+: " + re.escape(stopped))
        self.assertIn(f"task after cancelled: {stopped}\n", done.stdout)
        ended = r"the run's timeout of 1\.0s ended it at \d{4}-\d\d-\d\dT[\d:.]+Z"
        self.assertRegex(done.stdout, ended)
        shown = self.hw("runs", "show", "@last").stdout
        self.assertRegex(shown, ended)
        self.assertRegex(shown, r"slow +cancelled +\d +\S+ +" + re.escape(stopped))
        self.assertRegex(shown, r"after +cancelled +0 +- +" + re.escape(stopped))
        self.assertNotIn("cancel_requested", shown)
        self.assertRegex(self.hw("runs", "why", "@last").stdout, "run 1 is failed: " + ended)
        self.assertRegex(self.json("runs", "why", "@last")[0]["why"][0], ended)
        self.assertIn(f"reason: {stopped}\n", self.hw("runs", "why", "@last", "slow").stdout)
        self.assertNotIn("cancel_requested", self.hw("runs", "why", "@last", "slow").stdout)

    def test_finally_sees_why_the_run_ended(self):
        tell = "finally:\n  tell: {run: 'echo [${{ run.outcome }}] [${{ run.reason }}]'}\n"
        self.write("well.yaml", "version: 1\nname: well\ntasks:\n  a: {run: 'true'}\n" + tell)
        self.assertIn("tell | [succeeded] []\n", self.hw("run", "well.yaml").stdout)
        self.write("bad.yaml", "version: 1\nname: bad\ntasks:\n  a: {run: 'false'}\n" + tell)
        self.assertIn("tell | [failed] []\n", self.hw("run", "bad.yaml", code=FAILED).stdout)
        self.write("fast.yaml", "version: 1\nname: fast\non_failure: cancel_rest\ntasks:\n"
                                "  a: {run: 'false'}\n  b: {run: sleep 60}\n" + tell)
        done = self.hw("run", "fast.yaml", code=FAILED).stdout
        self.assertIn("tell | [failed] [cancel_rest]\n", done)
        self.assertRegex(self.hw("runs", "why", "@last").stdout,
                         "run 3 is failed: a task failed, and on_failure: cancel_rest ended the rest at ")
        self.write("gate.yaml", f"version: 1\nname: gate\ntasks:\n  a: {{run: '{gate('a')}'}}\n"
                   + tell)
        process = self.start("run", "gate.yaml")
        self.until_exists("a.here")
        self.hw("runs", "cancel", "@last")
        self.assertIn("tell | [cancelled] [cancel_requested]\n", self.ends(process, FAILED))
        self.assertRegex(self.hw("runs", "why", "@last").stdout,
                         r"run 4 is cancelled: it was cancelled at \d{4}-\S+ by \S+@\S+\n")

    def test_allowed_failure_is_told_with_its_error(self):
        self.write("may.yaml", "version: 1\nname: may\ntasks:\n"
                               "  a: {run: 'echo first; echo no such host >&2; exit 3', "
                               "allow_failure: true}\n  b: {run: 'true', needs: [a]}\n")
        done = self.hw("run", "may.yaml").stdout
        self.assertRegex(done, r"task b succeeded.*\n"
                               r"task a failed \(allowed\): exit code 3 \(try 1 of 1\)\n"
                               r"  a \| no such host\nrun 1 of may succeeded")
        self.assertRegex(self.hw("runs", "show", "@last").stdout,
                         r"a +failed \(allowed\) +1 +\S+ +exit code 3: no such host\n")
        why = self.hw("runs", "why", "@last").stdout
        self.assertIn("task a of run 1 is failed (allowed) since ", why)
        self.assertIn("it may fail (allow_failure): ", why)
        self.assertIn("last line: no such host\n", why)

    def test_took_spans_all_tries(self):
        self.write("again.yaml", "version: 1\nname: again\ntasks:\n  a:\n"
                                 "    run: test \"$HEADWORKS_TRY\" = 3\n"
                                 "    retry: {max_attempts: 3, backoff: fixed, initial: 600ms, jitter: 0}\n")
        self.hw("run", "again.yaml")
        took = re.search(r"\na +succeeded +3 +(\S+)", self.hw("runs", "show", "@last").stdout)[1]
        self.assertRegex(took, r"^\d+\.\ds$", "two waits of 0.6 s are part of it")
        self.assertGreater(float(took[:-1]), 1.1)

    def test_words_that_runs_are_told_in_are_explained(self):
        self.hw("run", "bad.yaml", code=FAILED)
        run = self.json("runs", "show", "1")
        words = {task["state"] for task in run["tasks"]} | {run["state"], "exit_code"}
        words |= {task["reason"] for task in run["tasks"] if task["reason"]}
        for word in words:
            self.assertTrue(self.hw("explain", word).stdout.startswith(f"{word}\n\n"), word)
        self.assertIn("costs a loss, not a try", self.json("explain", "lost")["text"])
        self.assertIn("did you mean 'timeout'?",
                      self.hw("explain", "timeuot", code=NOT_FOUND).stderr)
        self.assertIn("did you mean 'HW1001'?",
                      self.hw("explain", "HW10001", code=NOT_FOUND).stderr)

    def test_unstick_of_a_run_that_is_not_stuck_is_refused(self):
        self.hw("run", "bad.yaml", code=FAILED)
        self.hw("runs", "unstick", "1", code=REFUSED)

    def test_delete_forgets_finished_runs_only(self):
        runner = self.start("run", "slow.yaml")
        self.until_exists("a.here")
        self.hw("runs", "delete", "1", code=REFUSED)
        self.write("a.go", "")
        self.ends(runner, OK)
        self.hw("runs", "delete", "1")
        self.hw("runs", "show", "1", code=NOT_FOUND)
        self.hw("runs", "logs", "1", code=NOT_FOUND)

    def test_prune_goes_by_age(self):
        self.hw("run", "bad.yaml", code=FAILED)
        self.assertEqual(self.json("runs", "prune", "--older-than", "1h")["removed"], 0)
        self.assertEqual(self.json("runs", "prune", "--older-than", "0s", "--dry-run")["removed"], 1)
        self.assertEqual(len(self.json("runs", "list")), 1)
        self.assertEqual(self.json("runs", "prune", "--older-than", "0s")["removed"], 1)
        self.assertEqual(self.json("runs", "list"), [])
        self.hw("runs", "prune", "--older-than", "30", code=USAGE)
        self.hw("runs", "prune", code=USAGE)


if __name__ == "__main__":
    harness.main()
