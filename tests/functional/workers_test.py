"""Workers: real processes, a real network, and what goes wrong between them."""
import datetime
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import harness
from fault_proxy import FaultProxy
from harness import NOT_FOUND, OK, REFUSED, ROOT, TERMINATED, UNAVAILABLE, USAGE

LEASE = 4.0  # seconds; whatever a worker says is heard within a fraction of it
# Seconds that a network is cut, and that a server is up between two restarts: tools/soak
# worker-outages has them longer.
CUT = float(os.environ.get("HEADWORKS_TEST_CUT", "1"))
UP = float(os.environ.get("HEADWORKS_TEST_UP", "0.7"))
harness.PATIENCE = max(harness.PATIENCE, 2 * CUT)


def gated(name):
    """Shell that says that it is there (NAME.here, a line for each time) and waits for NAME.go."""
    return (f"echo $$ >> {name}.here; i=0; while [ ! -e {name}.go ] && "
            f"[ $i -lt {int(harness.PATIENCE * 20)} ]; do i=$((i+1)); sleep 0.05; done")


class WorkersCase(harness.Case):
    def setUp(self):
        super().setUp()
        self.env["HEADWORKS_COMMAND_EXECUTOR"] = "queue"
        self.lease(LEASE)
        self.server = None

    def lease(self, seconds):
        self.env["HEADWORKS_WORKER_LEASE"] = f"{int(seconds * 1000)}ms"
        self.env["HEADWORKS_WORKER_HEARTBEAT"] = f"{int(seconds * 250)}ms"

    def up(self):
        """The engine; again where it was."""
        listen = self.server or "127.0.0.1:0"
        self.engine = self.start("up", "--rpc-listen", listen)
        self.until_said(self.engine, "workers connect to ")
        self.server = re.search(r"workers connect to (\S+)", self.text(self.engine))[1]
        return self.engine

    def kill(self, process, how=signal.SIGKILL):
        process.send_signal(how)
        process.wait()

    def token(self, *args):
        return self.hw("worker", "token", "create", *args).stdout.strip()

    def worker(self, name, *args, server=None, token=None, folder=None, ready=True):
        if not hasattr(self, "own_token"):
            self.own_token = self.token()
        self.env["HEADWORKS_WORKER_TOKEN"] = token or self.own_token
        process = self.start("worker", "--server", server or self.server, "--name", name,
                             "--state-dir", self.dir / (folder or f"worker-{name}"), *args)
        del self.env["HEADWORKS_WORKER_TOKEN"]
        if ready:
            self.until_said(process, "registered as")
        return process

    def flow(self, *tasks, name="flow"):
        """A file with these tasks, each (id, script), and what more it says."""
        lines = ["version: 1", f"name: {name}", "tasks:"]
        for task, script, *more in tasks:
            lines += [f"  {task}:", f"    cwd: {self.dir}", f"    run: {json.dumps(script)}"]
            lines += [f"    {each}" for each in more]
        return self.write(f"{name}.yaml", "\n".join(lines) + "\n").name

    def begin(self, *tasks, **more):
        self.hw("run", self.flow(*tasks, **more), "--detach")

    def ended(self, state="succeeded"):
        self.until(lambda: self.run_state() not in ("pending", "running"), "the run ends")
        self.assertEqual(self.run_state(), state, self.hw("runs", "show", "@last").stdout)

    def log(self, run="@last"):
        return self.hw("runs", "logs", run).stdout


class WorkersTest(WorkersCase):
    def test_two_workers_share_a_workflow(self):
        self.up()
        one = self.worker("one", "--queue", "default=2")
        two = self.worker("two", "--queue", "default=2")
        self.begin(*[(f"t{i}", f"echo {i} >> done; sleep 0.1") for i in range(20)])
        self.ended()
        self.assertEqual(sorted(map(int, self.lines("done"))), list(range(20)))
        for worker in (one, two):
            self.assertIn(" succeeded", self.text(worker))

    def test_a_killed_worker_is_one_loss_and_the_other_goes_on(self):
        self.up()
        first = self.worker("first")
        self.begin(("a", gated("a")))
        self.until_exists("a.here")
        second = self.worker("second")
        self.kill(first)
        self.until(lambda: len(self.lines("a.here")) == 2, "the other begins it")
        self.write("a.go", "")
        self.ended()
        self.assertEqual(len(self.lines("a.here")), 2)
        self.assertIn("flow/a", self.text(second))
        shown = self.json("runs", "show", "@last")["tasks"][0]
        self.assertEqual(shown["losses"], 1)
        self.assertFalse(os.path.exists(f"/proc/{self.lines('a.here')[0]}"))

    def test_a_server_that_restarts_costs_nothing(self):
        self.up()
        self.worker("w")
        self.begin(("a", f"echo before; {gated('a')}; echo after"), ("b", "echo b", "needs: [a]"))
        self.until_exists("a.here")
        self.kill(self.engine)
        self.write("a.go", "")
        time.sleep(0.5)  # tidy-allow(sleep): the task ends while nobody listens
        self.up()
        self.ended()
        self.assertEqual(len(self.lines("a.here")), 1)
        for line in ("before", "after", "b"):
            self.assertEqual(self.log().count(line + "\n"), 1, self.log())

    def test_a_server_that_restarts_again_and_again(self):
        self.up()
        worker = self.worker("w", "--queue", "default=4")
        self.begin(*[(f"t{i}", f"echo {i} >> done; echo line {i}; sleep {UP / 2}")
                     for i in range(80)])
        for _ in range(12):
            time.sleep(UP)  # tidy-allow(sleep): the time between two restarts is what is tested
            self.kill(self.engine)
            self.up()
        self.ended()
        self.assertEqual(sorted(map(int, self.lines("done"))), list(range(80)))
        self.assertIsNone(worker.poll())

    def test_a_cut_shorter_than_the_lease_is_not_seen(self):
        self.lease(max(LEASE, 1.5 * CUT))
        self.up()
        proxy = FaultProxy(self.server)
        self.addCleanup(proxy.close)
        self.worker("w", server=proxy.address)
        self.begin(("a", f"echo one; {gated('a')}; echo two"))
        self.until_exists("a.here")
        proxy.cut()
        self.write("a.go", "")
        time.sleep(CUT)  # tidy-allow(sleep): so long is the cut
        proxy.join()
        self.ended()
        self.assertEqual(len(self.lines("a.here")), 1)
        self.assertEqual(self.log().count("two\n"), 1)

    def test_a_queue_without_workers_holds_up_no_other(self):
        self.env["HEADWORKS_MAX_WAITING_FOR_WORKERS"] = "8"
        self.up()
        self.begin(*[(f"t{i}", "echo >> dead; echo dead", "queue: gpu") for i in range(40)], name="dead")
        self.worker("live", "--queue", "default=2")
        self.begin(*[(f"t{i}", f"echo {i} >> live") for i in range(20)], name="live")
        self.ended()
        self.assertEqual(sorted(map(int, self.lines("live"))), list(range(20)))
        states = list(self.states("1").values())
        self.assertEqual((states.count("queued"), states.count("ready")), (4, 36), states)
        ready = next(task for task, state in self.states("1").items() if state == "ready")
        self.assertIn("wait for those of queue 'gpu'", self.hw("runs", "why", "1", ready).stdout)
        self.worker("gpu", "--queue", "gpu=8")
        self.until(lambda: self.run_state("1") == "succeeded", "its time comes")
        self.assertEqual(self.log("1").count("| dead"), 40)

    def test_a_folder_that_tasks_share_is_refused_and_what_to_use_said(self):
        self.up()
        self.worker("w")
        self.begin(("a", "ls ${{ run.dir }}/x"), ("b", "ls $OUT", "env: {OUT: '${{ run.dir }}'}"),
                   ("c", "echo ${{ has(run.dir) ? 'shared' : 'alone' }}"))
        self.ended("failed")
        for task, field in (("a", "run"), ("b", "env.OUT")):
            self.assertIn(f"{field}: uses run.dir, a folder that the tasks of a run share, and those "
                          "that workers run do not; pass values by outputs, and files by artifacts",
                          self.hw("runs", "why", "@last", task).stdout)
        self.assertIn("alone\n", self.log())

    def test_deadline_before_any_worker_comes_is_no_try(self):
        self.up()
        out = self.hw("run", self.flow(("a", "true", "deadline: 300ms")), code=harness.FAILED).stdout
        end = "deadline of 300ms, before try 1 could start"
        self.assertIn(f"task a failed: {end}\n", out)
        for wrong in ("task a started", "(try 1"):
            self.assertNotIn(wrong, out)
        self.assertRegex(self.hw("runs", "show", "@last").stdout, rf"a +failed +0 +- +{end}\n")
        self.assertIn(f"it ended at its {end}\n", self.hw("runs", "why", "@last", "a").stdout)

    def test_dropped_connections_are_made_again(self):
        self.up()
        proxy = FaultProxy(self.server)
        self.addCleanup(proxy.close)
        # So few at a time that they take longer than the drops.
        self.worker("w", "--queue", "default=2", server=proxy.address)
        self.begin(*[(f"t{i}", f"echo {i} >> done; sleep 0.1") for i in range(30)])
        for _ in range(8):
            time.sleep(0.2)  # tidy-allow(sleep): the time between two drops is what is tested
            proxy.drop()
        self.ended()
        self.assertEqual(sorted(map(int, self.lines("done"))), list(range(30)))

    def test_a_cut_longer_than_the_lease_fences_the_first(self):
        self.lease(max(LEASE, CUT / 2))
        self.up()
        proxy = FaultProxy(self.server)
        self.addCleanup(proxy.close)
        cut_off = self.worker("cut", server=proxy.address)
        self.begin(("a", f"trap '' TERM; {gated('a')}"))
        self.until_exists("a.here")
        first = self.lines("a.here")[0]
        other = self.worker("other")
        began = time.monotonic()
        proxy.cut()
        proxy.drop()
        # Its own clock ends the code, before the engine gives the task to another.
        self.until(lambda: len(self.lines("a.here")) == 2, "the other begins it")
        self.assertFalse(os.path.exists(f"/proc/{first}"), "two run at once")
        self.until_said(cut_off, "is stopped: the server has not answered")
        while time.monotonic() < began + CUT:
            time.sleep(0.1)  # tidy-allow(sleep): so long is the cut, at least
        proxy.join()
        self.until_said(cut_off, "somebody else's")
        self.write("a.go", "")
        self.ended()
        self.assertIn("succeeded", self.text(other))
        self.assertEqual(len(self.lines("a.here")), 2)

    def test_a_worker_that_is_stopped_for_three_leases_leaves_nothing_running(self):
        self.lease(2)
        self.up()
        stopped = self.worker("stopped")
        self.begin(("a", f"trap '' TERM; {gated('a')}"))
        self.until_exists("a.here")
        first = self.lines("a.here")[0]
        self.worker("other")
        stopped.send_signal(signal.SIGSTOP)
        self.until(lambda: len(self.lines("a.here")) == 2, "the other begins it")
        # Its supervisor has seen to that, for the worker could not.
        self.assertFalse(os.path.exists(f"/proc/{first}"), "two run at once")
        time.sleep(4)  # tidy-allow(sleep): three leases in sum
        stopped.send_signal(signal.SIGCONT)
        self.until_said(stopped, "somebody else's")
        self.write("a.go", "")
        self.ended()
        self.assertEqual(len(self.lines("a.here")), 2)

    def test_a_worker_that_wakes_after_another_has_finished_changes_nothing(self):
        self.lease(2)
        self.up()
        stopped = self.worker("stopped")
        self.begin(("a", f"{gated('a')}; echo '{{\"by\": '$$'}}' > $HEADWORKS_OUTPUT"),
                   ("b", "echo by ${{ needs.a.output.by }} >> b.here", "needs: [a]"))
        self.until_exists("a.here")
        stopped.send_signal(signal.SIGSTOP)
        self.worker("other")
        self.until(lambda: len(self.lines("a.here")) == 2, "the other begins it")
        self.write("a.go", "")
        self.ended()
        before = self.json("runs", "show", "@last")
        stopped.send_signal(signal.SIGCONT)
        self.until_said(stopped, "somebody else's")
        self.assertEqual(self.json("runs", "show", "@last"), before)
        self.assertEqual(self.lines("b.here"), ["by", self.lines("a.here")[1]])
        (a,) = [task for task in before["tasks"] if task["task"] == "a"]
        self.assertEqual((a["tries"], a["losses"]), (1, 1))

    def test_a_task_that_ends_in_a_cut_longer_than_the_lease_is_run_again(self):
        self.lease(4)
        self.up()
        proxy = FaultProxy(self.server)
        self.addCleanup(proxy.close)
        cut_off = self.worker("cut-off", server=proxy.address)
        self.begin(("a", gated("a")))
        self.until_exists("a.here")
        other = self.worker("other")
        proxy.cut()
        proxy.drop()
        self.write("a.go", "")
        self.until_said(other, "succeeded")
        self.ended()
        proxy.join()
        self.until_said(cut_off, "somebody else's")
        self.assertEqual(len(self.lines("a.here")), 2)
        (a,) = self.json("runs", "show", "@last")["tasks"]
        self.assertEqual((a["tries"], a["losses"]), (1, 1))

    def test_labels_choose_the_worker(self):
        self.up()
        self.worker("plain")
        self.begin(("a", "echo a >> a.here", "requires: [region=eu]"), ("b", "echo b >> b.here"))
        self.until_exists("b.here")
        self.until(lambda: self.states()["b"] == "succeeded", "what requires nothing runs")
        self.assertIn("region=eu", self.hw("runs", "why", "@last", "a").stdout)
        self.assertEqual(self.lines("a.here"), [])
        eu = self.worker("eu", "--label", "region=eu")
        self.ended()
        self.assertIn("/a of run", self.text(eu))

    def test_lines_of_a_live_task_are_followed(self):
        self.up()
        self.worker("w")
        self.begin(("a", f"echo begun; {gated('a')}; echo over"))
        follower = self.start("runs", "logs", "@last", "-f")
        self.until_said(follower, "begun")
        self.assertEqual(self.states(), {"a": "running"})
        self.write("a.go", "")
        self.assertIn("over", self.ends(follower, OK))

    def test_a_full_disk_of_a_worker_loses_nothing(self):
        disk = self.mount_disk("8m")
        self.up()
        poor = self.worker("poor", folder="disk/state")
        self.fill_disk(disk)
        self.begin(("a", "echo '{\"n\": 1}' > $HEADWORKS_OUTPUT"),
                   ("b", "echo n is ${{ needs.a.output.n }}", "needs: [a]"))
        self.until_said(poor, "No space left on device")
        self.assertEqual(self.run_state(), "running")
        (disk / "filler").unlink()
        self.ended()
        self.assertIn("n is 1\n", self.log())
        for task in self.json("runs", "show", "@last")["tasks"]:
            self.assertEqual((task["tries"], task["losses"]), (1, 0), task)

    def test_drain_lets_tasks_end_and_takes_no_more(self):
        self.up()
        worker = self.worker("w", "--queue", "default=1")
        self.begin(("a", gated("a")), ("b", "echo b >> b.here", "needs: [a]"))
        self.until_exists("a.here")
        worker.terminate()
        self.until_said(worker, "draining")
        self.write("a.go", "")
        said = self.ends(worker, OK)
        self.assertIn("left", said)
        self.assertNotIn("/b of run", said)
        following = self.worker("next")
        self.ended()
        self.assertIn("/b of run", self.text(following))
        self.assertEqual(len(self.lines("a.here")), 1)

    def test_drain_interrupts_at_no_cost(self):
        self.up()
        worker = self.worker("w", "--drain-timeout", "100ms")
        self.begin(("a", gated("a"), "retry: {max_attempts: 1, max_losses: 1}"))
        self.until_exists("a.here")
        worker.terminate()
        said = self.ends(worker, TERMINATED)
        self.assertIn("left; 1 task was interrupted and runs again, at no cost\n", said)
        self.write("a.go", "")
        self.worker("next")
        self.ended()
        self.assertEqual(len(self.lines("a.here")), 2)

    def test_a_second_signal_interrupts_now(self):
        self.up()
        worker = self.worker("w", "--drain-timeout", "10m")
        self.begin(("a", gated("a")))
        self.until_exists("a.here")
        worker.terminate()
        self.until_said(worker, "draining")
        worker.terminate()
        self.ends(worker, TERMINATED)

    def test_cancel_reaches_a_task_at_once(self):
        self.lease(60)
        self.up()
        self.worker("w")
        # It needs no other program to say when it was told.
        self.begin(("a", "exec python3 -c 'import signal, time\n"
                         "def stop(*_): open(\"stopped.new\", \"w\").write(str(time.time()))\n"
                         "signal.signal(signal.SIGTERM, stop)\n"
                         "open(\"a.here\", \"w\")\n"
                         "signal.pause()\n"
                         "import os; os.rename(\"stopped.new\", \"stopped\"); exit(1)'"))
        self.until_exists("a.here")
        time.sleep(1)  # tidy-allow(sleep): its heartbeat waits by then
        self.hw("runs", "cancel", "@last")
        self.until_exists("stopped")
        self.ended("cancelled")
        cancel, = [event for event in self.json("runs", "show", "@last")["events"]
                   if event["kind"] == "cancel"]
        asked = datetime.datetime.fromisoformat(cancel["at"]).timestamp()
        self.assertLess(float(self.lines("stopped")[0]) - asked, 1.0)

    def test_two_of_one_name_are_two_workers(self):
        self.up()
        self.worker("same", "--queue", "default=1", folder="one")
        self.worker("same", "--queue", "default=1", folder="two")
        self.begin(("a", gated("a")), ("b", gated("b")))
        self.until_exists("a.here")
        self.until_exists("b.here")
        self.write("a.go", "")
        self.write("b.go", "")
        self.ended()
        third = self.worker("same", folder="one", ready=False)
        self.assertIn("another name or state folder", self.ends(third, UNAVAILABLE))

    def test_who_has_no_good_token_is_refused(self):
        self.up()
        bad = self.worker("w", token="x.y.z", ready=False)
        self.assertIn("(malformed)", self.ends(bad, REFUSED))
        late = self.token("--valid", "1s")
        time.sleep(1.1)  # tidy-allow(sleep): so long is it good
        self.assertIn("(expired)", self.ends(self.worker("w", token=late, ready=False), REFUSED))
        other = self.token("--tenant", "other")
        said = self.ends(self.worker("w", token=other, ready=False), REFUSED)
        self.assertIn("wrong_tenant", said)
        narrow = self.token("--name", "gpu-*", "--queues", "mail,default")
        self.assertIn("wrong_name", self.ends(self.worker("w", token=narrow, ready=False), REFUSED))
        said = self.ends(self.worker("gpu-1", "--queue", "other", token=narrow, ready=False),
                         REFUSED)
        self.assertIn("wrong_queue", said)
        self.worker("gpu-1", "--queue", "mail", token=narrow)
        self.env.pop("HEADWORKS_WORKER_TOKEN", None)
        said = self.hw("worker", "--server", self.server, code=USAGE).stderr
        self.assertIn("a worker needs a token", said)

    def test_keys_are_rotated_under_an_engine(self):
        said = self.hw("worker", "token", "rotate", code=NOT_FOUND).stderr
        self.assertIn("there is no store", said)
        self.up()
        first = self.token()
        self.hw("worker", "token", "rotate")
        second = self.token()
        time.sleep(1.1)  # tidy-allow(sleep): the engine looks at its keys once a second
        self.worker("one", "--queue", "other", token=first)
        self.worker("two", token=second)
        self.begin(("a", gated("a")))
        self.until_exists("a.here")
        self.hw("worker", "token", "rotate")
        time.sleep(1.1)  # tidy-allow(sleep): the same
        refused = self.worker("late", token=first, ready=False)
        self.assertIn("(unknown_key)", self.ends(refused, REFUSED))
        self.write("a.go", "")
        self.ended()
        self.assertEqual(len(self.lines("a.here")), 1, "what runs is none the worse for it")

    def test_a_token_comes_from_a_file_too(self):
        self.up()
        self.write("token", self.token() + "\n")
        worker = self.start("worker", "--server", self.server, "--token-file", "token",
                            "--state-dir", "w")
        self.until_said(worker, "registered as")
        self.hw("worker", "--server", self.server, "--token-file", "none", code=USAGE)

    def test_logs_and_outputs_arrive_whole(self):
        self.up()
        self.worker("w")
        # With 8 bytes around them: of 1 MiB, and of one more.
        printed = ("python3 -c 'print(\"{\\\"x\\\":\\\"\" + \"o\" * (1048576 - %d) + "
                   "\"\\\"}\", end=\"\")' > $HEADWORKS_OUTPUT")
        self.begin(
            ("line", "head -c 65536 /dev/zero | tr '\\0' x; echo"),
            ("bytes", "printf 'a\\377\\001b\\n'"),
            ("many", "seq 20000"),
            ("out", printed % 8), ("over", printed % 7, "allow_failure: true"))
        self.ended()
        self.assertEqual(self.states()["over"], "failed")
        self.assertEqual(self.states()["out"], "succeeded")
        lines = self.hw("runs", "logs", "@last", "line").stdout.splitlines()
        self.assertEqual([len(line.split()[-1]) for line in lines], [65536])
        many = [line.split()[-1] for line in
                self.hw("runs", "logs", "@last", "many").stdout.splitlines()]
        self.assertEqual(many, [str(i) for i in range(1, 20001)])
        raw = subprocess.run([self.program, "runs", "logs", "@last", "bytes"], env=self.env,
                             capture_output=True, timeout=harness.PATIENCE, check=True).stdout
        self.assertIn(b"a\xff\x01b\n", raw)

    def test_up_needs_an_address_and_both_files_of_tls(self):
        self.hw("up", "--rpc-listen", "nowhere", code=USAGE)
        self.hw("up", "--rpc-listen", "127.0.0.1:0", "--rpc-tls-cert", "x", code=USAGE)

    def test_metrics_and_health(self):
        self.up()
        worker = self.worker("w", "--metrics-listen", "127.0.0.1:0", "--queue", "default=3")
        self.begin(("a", "true"))
        self.ended()
        port = int(re.search(r"metrics are at http://127.0.0.1:(\d+)", self.text(worker))[1])

        def ask(path):
            with socket.create_connection(("127.0.0.1", port)) as to:
                to.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
                answer = b""
                while data := to.recv(65536):
                    answer += data
                return answer.decode()
        self.until(lambda: "\nheadworks_worker_reported_total 1\n" in ask("/metrics"), "a report")
        self.assertIn("\nheadworks_worker_slots 3\n", ask("/metrics"))
        self.assertIn(" 200 ", ask("/healthz"))
        self.kill(self.engine)
        self.until(lambda: " 503 " in ask("/healthz"), "trouble")


def python_with_grpc():
    """The system's own, where tests run under another one."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import grpc, google.protobuf"],
                          capture_output=True).returncode == 0:
            return python
    raise AssertionError("no Python has grpc: tools/setup installs python3-grpcio")


class OtherLanguagesTest(WorkersCase):
    """examples/worker_python, and the protocol as anybody may speak it."""

    def setUp(self):
        super().setUp()
        self.lease(8)
        self.python = python_with_grpc()
        plugin = subprocess.run(["sh", "-c", "command -v grpc_python_plugin"], text=True,
                                capture_output=True, check=True).stdout.strip()
        subprocess.run(["protoc", f"-I{ROOT}/src/rpc/proto", f"--python_out={self.dir}",
                        f"--grpc_out={self.dir}", f"--plugin=protoc-gen-grpc={plugin}",
                        "headworks/worker/v1/worker.proto", "headworks/worker/v1/queue.proto"],
                       check=True)
        self.up()
        self.speaker = {**self.env, "no_proxy": "127.0.0.1", "PYTHONPATH": str(self.dir),
                        "PYTHONDONTWRITEBYTECODE": "1", "HEADWORKS_WORKER_TOKEN": self.token()}

    def python_worker(self, *args, script=None):
        """The example's; `script`: one that imports it and runs it otherwise."""
        output = open(self.dir / f"output-{time.monotonic_ns()}", "w+")
        process = subprocess.Popen(
            [self.python, script or ROOT / "examples/worker_python/worker.py", *args, "--server",
             self.server],
            env=self.speaker, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        process.output = output
        self.addCleanup(self._end, process)
        self.until_said(process, "ready")
        return process

    def test_a_worker_in_python(self):
        worker = self.python_worker()
        self.begin(("a", "echo from python; echo '{\"n\": 41}' > $HEADWORKS_OUTPUT"),
                   ("b", "echo n is ${{ needs.a.output.n + 1 }}", "needs: [a]"),
                   ("c", "exit 3", "allow_failure: true"))
        self.ended()
        self.assertIn("from python\n", self.log())
        self.assertIn("n is 42\n", self.log())
        self.assertEqual(self.states(), {"a": "succeeded", "b": "succeeded", "c": "failed"})
        worker.terminate()
        self.ends(worker, OK)

    def test_items_of_a_queue_in_python(self):
        jobs = self.python_worker("--queue", "mail", script=ROOT / "examples/worker_python/jobs.py")
        self.hw("queue", "set", "mail", "--max-attempts", "1")
        for item in ("good", "fails"):
            self.hw("queue", "push", "mail", json.dumps(item), "--id", item)
        shown = lambda item: self.json("queue", "show", "mail", item)
        self.until(lambda: shown("good")["state"] == "completed", "it is done")
        self.until(lambda: shown("fails")["state"] == "dead", "it has failed")
        self.assertEqual((shown("fails")["holder"], shown("fails")["reason"]),
                         ("python", "it fails"))
        self.kill(self.engine)
        self.up()
        self.hw("queue", "push", "mail", '"again"', "--id", "again")
        self.until(lambda: shown("again")["state"] == "completed", "it finds the next engine")
        jobs.terminate()
        self.ends(jobs, OK)
        self.assertEqual(self.text(jobs), 'ready\n"good"\n"fails"\n"again"\n')

    def test_a_worker_that_passes_no_artifacts_on_is_given_none(self):
        self.python_worker()
        self.begin(("a", "echo a > a", "artifacts: {f: a}"), ("b", "echo b"))
        self.until(lambda: self.states()["b"] == "succeeded", "it runs others")
        self.assertIn("that passes artifacts on", self.hw("runs", "why", "@last", "a").stdout)
        self.worker("other")
        self.ended()

    def test_a_worker_in_python_keeps_timeout_grace_and_cwd(self):
        self.python_worker()
        self.begin(
            ("kind", "pwd; trap 'echo got TERM; exit 0' TERM; sleep 60 & wait", "timeout: 1s",
             "allow_failure: true"),
            ("deaf", "trap '' TERM; while :; do sleep 0.1; done", "timeout: 1s", "grace: 1s",
             "allow_failure: true"))
        self.ended()
        self.assertEqual(self.states(), {"kind": "failed", "deaf": "failed"})
        self.assertIn(f"kind | {self.dir}\n", self.log())
        self.assertIn("kind | got TERM\n", self.log())
        for task in self.json("runs", "show", "@last")["tasks"]:
            self.assertEqual(task["reason"], "timeout", task)

    def test_a_worker_in_python_survives_the_engine_and_hears_a_cancel(self):
        self.python_worker()
        self.begin(("a", gated(f"{self.dir}/a")))
        self.until_exists("a.here")
        self.kill(self.engine)
        self.up()
        self.write("a.go", "")
        self.ended()
        self.assertEqual(len(self.lines("a.here")), 1)
        self.begin(("b", gated(f"{self.dir}/b")), name="other")
        self.until_exists("b.here")
        self.hw("runs", "cancel", "@last")
        self.ended("cancelled")

    def test_a_worker_in_python_outlives_what_goes_wrong_in_a_slot(self):
        worker = self.python_worker("--slots", "1")
        self.begin(
            ("long", "head -c 65537 /dev/zero | tr '\\0' x; echo; head -c 65536 /dev/zero | tr '\\0' y"),
            ("bad", "echo no JSON > $HEADWORKS_OUTPUT", "allow_failure: true"),
            ("next", "echo ok", "needs: [long, bad]", "trigger_rule: all_done"))
        self.write("none.yaml", "version: 1\nname: none\ntasks:\n  a: {exec: [/no/such/program]}\n")
        self.ended()
        log = self.log()
        self.assertIn(f"long | {'x' * 65536}\n", log)
        self.assertIn("long | x\n", log)
        self.assertIn(f"long | {'y' * 65536}\n", log)
        self.assertEqual(self.states(), {"long": "succeeded", "bad": "failed", "next": "succeeded"})
        self.hw("run", "none.yaml", "--detach")
        self.ended("failed")
        self.assertEqual(self.json("runs", "show", "@last")["tasks"][0]["reason"], "spawn")
        worker.terminate()
        self.ends(worker, OK)

    HANGS = """
import sys, threading, time
sys.path.append({examples!r})
import worker
from worker import pb

def hang(self):
    open({hangs!r}, "a").write("x\\n")
    while True:
        pulse = self.worker.call("Heartbeat", who=self.worker.who,
                                 work_tokens=[self.token]).pulses[0]
        self.token = pulse.work_token or self.token
        time.sleep(0.1)

worker.Attempt.run = hang
worker.main()
"""

    def test_a_worker_that_hangs_while_it_is_heard_keeps_a_task_for_its_timeout(self):
        self.lease(1)
        self.kill(self.engine)
        self.up()
        script = self.write("hangs.py", self.HANGS.format(
            examples=str(ROOT / "examples/worker_python"), hangs=str(self.dir / "hangs")))
        hangs = self.python_worker("--slots", "1", script=script)
        self.begin(("a", "echo done >> done", "timeout: 1s", "grace: 0s",
                    "retry: {max_attempts: 2, initial: 0s}"))
        self.until_exists("hangs")
        self.worker("good")
        self.ended()
        self.assertEqual(self.lines("done"), ["done"])
        self.assertIsNone(hangs.poll())
        self.assertRegex(self.hw("runs", "show", "@last").stdout, r"a +succeeded +2 ")
        self.until_said(self.engine, "has not ended it long after its timeout (1.0s)")

    WATCH_FAILS = """
import sys
sys.path.append({examples!r})
import worker
register = worker.Worker.register

def spoil(self, *args, **named):
    register(self, *args, **named)
    heartbeat, calls = self.stub.Heartbeat, []

    def fails_twice(*args, **named):
        calls.append(0)
        if len(calls) < 3:
            raise ValueError("spoiled")
        return heartbeat(*args, **named)

    self.stub.Heartbeat = fails_twice

worker.Worker.register = spoil
worker.main()
"""

    def test_a_worker_in_python_watches_on_whatever_goes_wrong_with_it(self):
        script = self.write("watch_fails.py", self.WATCH_FAILS.format(
            examples=str(ROOT / "examples/worker_python")))
        self.python_worker("--slots", "1", script=script)
        self.begin(("a", "sleep 600", "timeout: 2s", "grace: 0s"))
        self.ended("failed")
        (a,) = self.json("runs", "show", "@last")["tasks"]
        self.assertEqual((a["reason"], a["losses"]), ("timeout", 0))

    def test_a_worker_in_python_ends_its_task_while_the_engine_is_away(self):
        self.python_worker("--slots", "1")
        self.begin(("a", f"echo $$ > {self.dir}/pid; exec sleep 600"))
        self.until_exists("pid")
        pid = int((self.dir / "pid").read_text())
        self.kill(self.engine)
        self.until(lambda: not pathlib.Path(f"/proc/{pid}").exists(), "its lease ends")

    def test_a_worker_in_python_is_cordoned_and_drained(self):
        worker = self.python_worker()
        self.until(lambda: self.json("workers", "list"), "it is known")
        self.hw("workers", "cordon", "python")
        self.begin(("a", f"echo x >> {self.dir}/a.here"))
        self.hw("workers", "drain", "python")
        self.ends(worker, OK)
        self.assertEqual(self.lines("a.here"), [])

    def test_many_sessions_and_long_polls(self):
        """50 and 500 over two processes; HEADWORKS_SESSIONS and HEADWORKS_CLIENTS say otherwise."""
        sessions = int(os.environ.get("HEADWORKS_SESSIONS", "50"))
        clients = []
        each = sessions // int(os.environ.get("HEADWORKS_CLIENTS", "2"))
        for n in range(sessions // each):
            output = open(self.dir / f"sessions-{n}", "w+")
            client = subprocess.Popen(
                [self.python, ROOT / "tests/functional/worker_sessions.py", self.server, f"c{n}",
                 str(each), "10"], env=self.speaker, stdout=output, stderr=subprocess.STDOUT)
            client.output = output
            self.addCleanup(self._end, client)
            clients.append(client)
        for client in clients:
            self.until_said(client, "ready")
        status = pathlib.Path(f"/proc/{self.engine.pid}/status").read_text()
        self.assertLess(int(re.search(r"Threads:\s+(\d+)", status)[1]), 100, "a poll is no thread")
        self.begin(*((f"t{n}", "true") for n in range(200)))
        self.ended()
        done = 0
        for client in clients:
            client.terminate()
            self.ends(client, OK)
            counts = json.loads(self.text(client).splitlines()[-1])
            self.assertEqual(counts.keys() - {"polls", "done"}, set())
            done += counts.get("done", 0)
        self.assertEqual(done, 200)

    def test_another_protocol_is_refused(self):
        for protocol, code in ((0, "FAILED_PRECONDITION"), (1, "OK"), (2, "FAILED_PRECONDITION")):
            script = f"""
import grpc, os
from headworks.worker.v1 import worker_pb2 as pb, worker_pb2_grpc
stub = worker_pb2_grpc.WorkerStub(
    grpc.insecure_channel("{self.server}", [("grpc.enable_http_proxy", 0)]))
who = pb.Identity(tenant="public", worker="w", incarnation="i")
token = [("authorization", "Bearer " + os.environ["HEADWORKS_WORKER_TOKEN"])]
try:
    stub.Register(pb.RegisterRequest(who=who, slots={{"default": 1}}, protocol={protocol}),
                  metadata=token)
    print("OK")
except grpc.RpcError as error:
    print(error.code().name, error.details())
"""
            said = subprocess.run([self.python, "-c", script], env=self.speaker, text=True,
                                  capture_output=True, timeout=harness.PATIENCE, check=True).stdout
            self.assertEqual(said.split()[0], code, said)
            if code != "OK":
                self.assertIn("protocol", said)


if __name__ == "__main__":
    harness.main()
