"""`up --metrics-listen`: the text for Prometheus, health, and the log of the same process."""
import contextlib
import json
import math
import pathlib
import re
import resource
import signal
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request

import harness
from harness import OK, PATIENCE, REFUSED, ROOT, USAGE, Case, gate

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+)\})? '
                    r'(\+Inf|-Inf|NaN|[-+0-9.e]+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"')

MIXED = """\
version: 1
name: mixed
tasks:
  good: {run: "echo out"}
  bad: {run: "echo oh >&2; exit 3", retry: {max_attempts: 2, initial: 10ms}}
  after_bad: {run: "true", needs: bad}
  skipped: {run: "true", when: "1 > 2"}
"""


def gated(name, count):
    tasks = "".join(f"  t{i}:\n    run: |\n      {gate(f'{name}{i}')}\n      echo done\n"
                    for i in range(count))
    return f"version: 1\nname: {name}\ntasks:\n{tasks}"


def parse(text):
    """Families of the text format 0.0.4; what it does not allow raises."""
    families, name = {}, None
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert name not in families, f"{name} comes twice"
            families[name] = {"samples": {}}
        elif line.startswith("# TYPE "):
            _, _, of, kind = line.split(" ")
            assert of == name and kind in ("counter", "gauge", "histogram"), line
            families[name]["type"] = kind
        else:
            found = SAMPLE.fullmatch(line)
            assert found, line
            suffixes = ("_bucket", "_sum", "_count")
            allowed = ([name + s for s in suffixes] if families[name]["type"] == "histogram"
                       else [name])
            assert found[1] in allowed, line
            labels = tuple(LABEL.findall(found[2] or ""))
            key = (found[1], labels)
            assert key not in families[name]["samples"], f"{line} comes twice"
            families[name]["samples"][key] = float(found[3])
    for name, family in families.items():
        if family["type"] == "histogram":
            check_histogram(name, family["samples"])
    return families


def check_histogram(name, samples):
    series = {}
    for (sample, labels), value in samples.items():
        if sample == name + "_bucket":
            bound = float(dict(labels)["le"].replace("+Inf", "inf"))
            rest = tuple(pair for pair in labels if pair[0] != "le")
            series.setdefault(rest, []).append((bound, value))
    for labels, buckets in series.items():
        assert [b for b, _ in buckets] == sorted({b for b, _ in buckets}), name
        counts = [count for _, count in buckets]
        assert counts == sorted(counts), f"{name} is not cumulative"
        assert math.isinf(buckets[-1][0]) and counts[-1] == samples[(name + "_count", labels)]


class MonitoredCase(Case):
    def monitored(self, *args):
        engine = self.start("up", "--metrics-listen", "127.0.0.1:0", *args)
        self.until_said(engine, "metrics are at")
        engine.url = re.search(r"metrics are at (http://127\.0\.0\.1:\d+)/metrics",
                               self.text(engine))[1]
        return engine

    def get(self, engine, path):
        try:
            with urllib.request.urlopen(engine.url + path, timeout=PATIENCE) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers["Content-Type"], error.read().decode()

    def scrape(self, engine):
        status, kind, text = self.get(engine, "/metrics")
        self.assertEqual((status, kind), (200, "text/plain; version=0.0.4; charset=utf-8"))
        return parse(text)

    def value(self, engine, name, **labels):
        samples = self.scrape(engine)[name]["samples"]
        return samples[(name, tuple(labels.items()))]

    def until_value(self, engine, name, wanted, **labels):
        self.until(lambda: self.value(engine, name, **labels) == wanted,
                   f"{name} {labels} = {wanted}")

    @contextlib.contextmanager
    def locked(self, *files):
        """Other programs' transactions, which nobody else can write beside."""
        held = []
        for file in files:
            database = sqlite3.connect(file, timeout=PATIENCE, isolation_level=None)
            database.execute("BEGIN IMMEDIATE")
            held.append(database)
        try:
            yield
        finally:
            for database in held:
                database.rollback()
                database.close()


class MetricsTest(MonitoredCase):
    # What no workflow of commands brings about, and the test that does.
    # That its row shows what moves there is shown by MetricsTable.RowsThatNoWorkflow...
    ELSEWHERE = {
        "headworks_attempts_held_up_seconds": (
            "src/engine/tests/disposition_test.cc",
            "TEST_P(DispositionTest, HowLongTheOldestIsNotTakenIsAFigureOfItsExecutor)"),
        "headworks_runs_waiting": (
            "src/engine/tests/places_test.cc",
            "TEST_F(PlacesTest, WhoWaitsIsCountedByWhatFor)"),
        "headworks_attempts_superseded_total": (
            "src/engine/tests/measure_test.cc",
            "TEST_F(MeasureTest, VerdictThatComesTwiceIsCountedAsSuperseded)"),
        "headworks_tasks_above_pool_limit": (
            "src/engine/tests/permits_test.cc",
            "TEST_F(PermitsTest, AskAboveALoweredLimitHoldsUpNobody)"),
        "headworks_permits_astray_total": (
            "src/engine/tests/permits_test.cc",
            "TEST_F(PermitsTest, AuditFindsAPermitThatWasNeverFreed)"),
        "headworks_attempts_overdue": (
            "src/engine/tests/overdue_test.cc",
            "TEST_P(OverdueTest, WhatNobodyKnowsAlarmsAndCountsTowardsTheSameBound)"),
        "headworks_words_refused_total": (
            "src/engine/tests/words_test.cc",
            "TEST_F(WordsTest, OneHolderIsLetInAndTheRowSaysWhich)"),
        **{f"headworks_{name}": (
            "src/executor_queue/tests/queue_executor_test.cc", f"TEST_F(QueueTest, {test})")
           for name, test in (
               ("workers", "FiguresFollowWhatHappens"),
               ("worker_attempts_waiting", "FiguresFollowWhatHappens"),
               ("worker_attempts_returned_total", "WhatIsNotBegunWithinALeaseGoesBackToItsPlace"),
               ("worker_attempts_lost_total", "ALeaseEndsWhenItEndsAndAnyWordExtendsIt"))},
        "headworks_worker_words_stale_total": (
            "src/executor_queue/tests/words_test.cc",
            "TEST_F(QueueTest, AStopAndARefusedTokenAnswerABeatAtOnce)"),
        "headworks_alerts_given_up_total": (
            "src/alert/tests/alerter_test.cc",
            "TEST_F(AlerterTest, FailingCommandIsTriedLaterWhileOthersGoFirstAndIsGivenUpVisibly)"),
        "headworks_dispatch_at_capacity_total": (
            "src/runner/tests/metrics_test.cc",
            "TEST(MetricsTable, BufferHasADepthAndABoundAndCountsNoOfferTwice)"),
        "headworks_dispatch_buffer_depth": (
            "src/runner/tests/metrics_test.cc",
            "TEST(MetricsTable, BufferHasADepthAndABoundAndCountsNoOfferTwice)")}
    # What is constant: its value is checked instead.
    CONSTANT = {"headworks_build_info"}

    def setUp(self):
        super().setUp()
        self.scrapes = []

    def look(self, engine):
        self.scrapes.append(self.scrape(engine))
        return self.scrapes[-1]

    def test_every_metric_moves(self):
        self.write("mixed.yaml", MIXED)
        self.write("wide.yaml", gated("wide", 4))
        self.write("one.yaml", gated("one", 1))
        engine = self.monitored("--max-concurrent-tasks", "2", "--inline-threads", "1",
                                "--dispatch-buffer-size", "8", "--dispatch-workers", "1",
                                "--alert-command", "cat > alert")
        version = self.hw("--version").stdout.split()[-1]
        self.assertEqual(self.value(engine, "headworks_build_info", version=version), 1)
        self.look(engine)
        resource.prlimit(engine.pid, resource.RLIMIT_NOFILE, (600, 700))
        self.work(engine)
        self.queues(engine)
        self.store_trouble(engine)
        self.counters_only_rise()
        engine.kill()
        engine.wait()
        self.stuck_after_a_crash()
        documented = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/metrics.md").read_text(), re.M)
        self.assertEqual(list(self.scrapes[0]), documented)
        still = {name for name in documented
                 if all(s[name]["samples"] in ({}, self.scrapes[0][name]["samples"])
                        for s in self.scrapes)}  # {}: the last engine has no such part
        self.assertEqual(still, self.ELSEWHERE.keys() | self.CONSTANT)
        rows = (ROOT / "src/runner/tests/metrics_test.cc").read_text()
        for name, (file, test) in self.ELSEWHERE.items():
            self.assertIn(test, (ROOT / file).read_text())
            self.assertIn(f'{{"{name}", "', rows)

    def queues(self, engine):
        self.hw("queue", "set", "mail", "--max-attempts", "1")
        self.look(engine)
        self.hw("queue", "push", "mail", "1", "--id", "a")
        self.hw("queue", "push", "mail", "1", "--id", "a")
        self.hw("queue", "push", "mail", "2", "--id", "a")
        self.hw("queue", "push", "mail", "1", "--id", "b")
        self.hw("queue", "push", "mail", "1", "--id", "c")
        for end in ("ack", "nack"):
            item, = json.loads(self.hw("queue", "pull", "mail", "-o", "json").stdout)
            self.hw("queue", end, "mail", item["claim"])
        self.hw("queue", "pull", "mail")
        self.hw("queue", "push", "mail", "1", "--id", "d")
        self.hw("queue", "pause", "mail")
        for name, wanted, labels in (
                ("headworks_queue_items", 1, {"state": "pending"}),
                ("headworks_queue_items", 1, {"state": "processing"}),
                ("headworks_queue_items", 1, {"state": "dead"}),
                ("headworks_queue_paused", 1, {}),
                ("headworks_queue_enqueued_total", 4, {}),
                ("headworks_queue_completed_total", 1, {}),
                ("headworks_queue_failed_total", 1, {}),
                ("headworks_queue_duplicates_total", 2, {}),
                ("headworks_queue_differing_total", 1, {})):
            self.assertEqual(self.value(engine, name, queue="mail", **labels), wanted,
                             (name, labels))
        self.assertGreater(self.value(engine, "headworks_queue_oldest_seconds", queue="mail"), 0)
        self.until_value(engine, "headworks_alerts_total", 1, about="dead_letter")
        self.until_value(engine, "headworks_alert_commands_total", 2, outcome="succeeded")
        self.look(engine)

    def work(self, engine):
        self.hw("run", "mixed.yaml", code=harness.FAILED)
        for name, wanted, labels in (
                ("headworks_runs_started_total", 1, {}),
                ("headworks_inbox_messages_total", 1, {}),
                ("headworks_runs_finished_total", 1, {"outcome": "failed"}),
                ("headworks_runs_finished_total", 0, {"outcome": "succeeded"}),
                ("headworks_tasks_finished_total", 1, {"state": "succeeded"}),
                ("headworks_tasks_finished_total", 1, {"state": "failed"}),
                ("headworks_tasks_finished_total", 1, {"state": "skipped"}),
                ("headworks_tasks_finished_total", 1, {"state": "upstream_failed"}),
                ("headworks_attempts_started_total", 3, {}),
                ("headworks_attempts_finished_total", 1, {"verdict": "succeeded"}),
                ("headworks_attempts_finished_total", 2, {"verdict": "retry"}),
                ("headworks_offers_total", 3, {"disposition": "dispatched"}),
                ("headworks_alerts_total", 1, {"about": "task_failed"}),
                ("headworks_executor_attempts_executed_total", 3, {"executor": "process"}),
                ("headworks_executor_attempts_failed_total", 2, {"executor": "process"}),
                ("headworks_executor_attempts_max", 2, {"executor": "process"}),
                ("headworks_runs_in_memory", 0, {})):
            self.assertEqual(self.value(engine, name, **labels), wanted, (name, labels))
        count = ("headworks_attempt_duration_seconds_count", (("executor", "process"),))
        self.assertEqual(
            self.look(engine)["headworks_attempt_duration_seconds"]["samples"][count], 3)

        wide = self.start("run", "wide.yaml")
        self.until_value(engine, "headworks_executor_attempts_active", 2, executor="process")
        self.look(engine)
        for name, wanted, labels in (
                ("headworks_runs_in_memory", 1, {}),
                ("headworks_attempts_live", 2, {"executor": "process"}),
                ("headworks_tasks_ready", 2, {"executor": "process"}),
                ("headworks_tasks", 2, {"state": "ready"})):
            self.assertEqual(self.value(engine, name, **labels), wanted, (name, labels))
        for i in range(4):
            self.write(f"wide{i}.go", "")
        self.ends(wide, OK)
        self.write("later.yaml", "version: 1\nname: later\ntasks:\n  a: {run: 'exit 1', "
                                 "retry: {max_attempts: 2, initial: 4m}}\n")
        self.start("run", "later.yaml")
        self.until_value(engine, "headworks_attempts_finished_total", 3, verdict="retry")
        self.assertGreater(self.value(engine, "headworks_timers"), 0)
        self.hw("runs", "cancel", "@last")

        self.hw("pool", "set", "gpu", 1)
        self.write("pooled.yaml", "version: 1\nname: pooled\ndefaults: {pool: gpu}\ntasks:\n" + "".join(
            f"  p{i}:\n    run: |\n      {gate(f'p{i}')}\n" for i in range(2)))
        pooled = self.start("run", "pooled.yaml")
        self.until_value(engine, "headworks_permits_held", 1)
        self.until_value(engine, "headworks_tasks_waiting_for_permits", 1)
        self.look(engine)
        for i in range(2):
            self.write(f"p{i}.go", "")
        self.ends(pooled, OK)
        self.until_value(engine, "headworks_permits_held", 0)

    def store_trouble(self, engine):
        """The databases are held so long that commits fail and lines of output are given up."""
        self.start("run", "one.yaml")  # it may give up, the engine may not
        self.until_exists("one0.here")
        status, _, text = self.get(engine, "/healthz")
        self.assertEqual(status, 200)
        self.assertRegex(text, "(?m)^ok store: takes commits$")
        self.assertNotIn(str(self.dir), text)
        with self.locked(self.store, f"{self.store}-logs"):
            self.write("one0.go", "")
            self.until(lambda: self.value(engine, "headworks_log_lines_dropped_total",
                                          executor="process") == 1, "a line is dropped")
            self.until_value(engine, "headworks_engine_healthy", 0)
            self.look(engine)
            status, _, text = self.get(engine, "/healthz")
            self.assertEqual(status, 503)
            self.assertRegex(text, "(?m)^trouble store: the log says why$")
            self.assertNotIn(str(self.dir), text)
        self.until(lambda: self.run_state() == "succeeded", "the run ends")
        self.until_value(engine, "headworks_engine_healthy", 1)
        self.assertEqual(self.get(engine, "/healthz")[0], 200)
        self.assertGreater(self.value(engine, "headworks_commits_failed_total"), 0)

    def counters_only_rise(self):
        for before, after in zip(self.scrapes, self.scrapes[1:]):
            for name, family in before.items():
                if family["type"] == "gauge":
                    continue
                for key, value in family["samples"].items():
                    self.assertGreaterEqual(after[name]["samples"][key], value, key)

    def stuck_after_a_crash(self):
        """A run whose workflow cannot be read any more, and an engine with other settings."""
        self.write("two.yaml", gated("two", 1))
        first = self.start("run", "two.yaml")
        self.until_exists("two0.here")
        first.kill()
        first.wait()
        database = sqlite3.connect(self.store, timeout=PATIENCE)
        with database:
            changed = database.execute("UPDATE workflow_version SET canonical_json = x'7b7d' WHERE "
                                       "version IN (SELECT version FROM run WHERE workflow = "
                                       "'two')")
            self.assertEqual(changed.rowcount, 1)
        database.close()
        engine = self.monitored("--max-concurrent-tasks", "3", "--inline-threads", "5")
        self.until_value(engine, "headworks_runs_stuck", 1)
        self.look(engine)


class ServingTest(MonitoredCase):
    def test_addresses(self):
        engine = self.monitored()
        self.assertEqual(self.get(engine, "/")[0], 404)
        address = engine.url.removeprefix("http://")
        other = str(self.dir / "other.db")
        done = self.hw("--store", other, "up", "--metrics-listen", address, code=REFUSED)
        self.assertRegex(done.stderr, rf"cannot listen on {address}: [^(]+; choose another one\n$")
        for bad in ("9464", "example.org:1", "127.0.0.1:65536"):
            done = self.hw("up", "--metrics-listen", bad, code=USAGE)
            self.assertIn(f"--metrics-listen: '{bad}' is not an IP address and a port", done.stderr)

    def test_without_the_setting_nothing_listens(self):
        engine = self.engine_up()
        sockets = subprocess.run(["find", f"/proc/{engine.pid}/fd", "-lname", "socket:*", "-printf",
                                  "%l\n"], capture_output=True, text=True, check=True).stdout
        listening = [line.split()[9] for name in ("tcp", "tcp6")
                     for line in pathlib.Path(f"/proc/net/{name}").read_text().splitlines()[1:]
                     if line.split()[3] == "0A"]
        self.assertEqual([i for i in listening if f"socket:[{i}]" in sockets], [])

    def test_leaving_ends_it(self):
        engine = self.monitored()
        engine.send_signal(signal.SIGTERM)
        self.ends(engine, OK)
        with self.assertRaises(urllib.error.URLError):
            urllib.request.urlopen(engine.url + "/metrics", timeout=5)


class LogTest(MonitoredCase):
    ATTEMPT = ["tenant", "run", "task", "try", "epoch"]

    def lines_of_an_engine(self, *args):
        """Standard error of an engine that runs MIXED."""
        self.write("mixed.yaml", MIXED)
        log = self.dir / "log"
        with open(log, "w") as file:
            engine = subprocess.Popen(
                [self.program, "up", *args], cwd=self.dir, env=self.env,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file, text=True)
        try:
            self.assertIn("engine is up", engine.stdout.readline())
            self.hw("run", "mixed.yaml", code=harness.FAILED)
            engine.send_signal(signal.SIGTERM)
            engine.stdout.read()
            self.assertEqual(engine.wait(PATIENCE), OK)
        finally:
            engine.kill()
            engine.wait()
            engine.stdout.close()
        return log.read_text().splitlines()

    def check(self, lines):
        """Of (time, level, message, fields)."""
        ends = []
        for stamp, level, message, fields in lines:
            self.assertRegex(stamp, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
            self.assertIn(level, ("debug", "info", "warning", "error"))
            if "attempt" in message or "epoch" in fields:
                self.assertEqual(list(fields)[:5], self.ATTEMPT, message)
                self.assertEqual(fields["tenant"], "public")
                self.assertIn(fields["task"], ("good", "bad"))
                self.assertGreater(int(fields["epoch"]), 0)
            if message == "attempt ended":
                ends.append((level, fields["task"], fields["try"], fields["verdict"]))
        self.assertEqual(sorted(ends), [("debug", "good", "1", "succeeded"),
                                        ("info", "bad", "1", "retry"),
                                        ("info", "bad", "2", "retry")])

    def test_every_json_line_parses(self):
        said = self.lines_of_an_engine("--log-level", "debug", "--log-format", "json")
        lines = [json.loads(line) for line in said]
        self.check([(line.pop("time"), line.pop("level"), line.pop("message"), line)
                    for line in lines])

    def test_every_text_line_parses(self):
        lines = []
        for line in self.lines_of_an_engine("--log-level", "debug"):
            found = re.fullmatch(r'(\S+) (\w+) +([^="]*?)((?: \w+="(?:[^"\\]|\\.)*")*)', line)
            self.assertTrue(found, line)
            fields = {key: json.loads(value)
                      for key, value in re.findall(r' (\w+)=("(?:[^"\\]|\\.)*")', found[4])}
            lines.append((found[1], found[2], found[3], fields))
        self.check(lines)

    def test_level_of_warnings_says_nothing_of_what_is_usual(self):
        self.assertEqual(self.lines_of_an_engine(), [])


if __name__ == "__main__":
    harness.main()
