"""Workers in trouble of their own, and engines that change their mind about them."""
import base64
import datetime
import json
import os
import re
import shutil
import socket
import subprocess
import time

import harness
from fault_proxy import FaultProxy
from harness import NOT_FOUND, USAGE
from workers_test import WorkersCase, gated


def instant(text):
    return datetime.datetime.fromisoformat(text).timestamp()


class WorkerTroubleTest(WorkersCase):
    def test_an_engine_with_a_shorter_lease_keeps_what_an_earlier_one_promised(self):
        self.lease(8)
        self.up()
        proxy = FaultProxy(self.server)
        self.addCleanup(proxy.close)
        self.worker("first", server=proxy.address)
        self.begin(("a", f"trap '' TERM; {gated('a')}"))
        self.until_exists("a.here")
        first = self.lines("a.here")[0]
        proxy.cut()
        self.kill(self.engine)
        self.lease(1)
        self.up()
        again = time.monotonic()
        self.worker("second")
        self.until(lambda: len(self.lines("a.here")) == 2, "the other begins it")
        self.assertFalse(os.path.exists(f"/proc/{first}"), "two run at once")
        self.assertGreaterEqual(time.monotonic() - again, 6)
        self.write("a.go", "")
        self.ended()
        record = self.store.with_name(self.store.name + "-worker-lease")
        self.until(lambda: record.read_text() == "1000000\n", "the longer lease is forgotten")

    def health(self, worker):
        port = int(re.search(r"metrics are at http://127.0.0.1:(\d+)", self.text(worker))[1])
        with socket.create_connection(("127.0.0.1", port)) as to:
            to.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = b""
            while data := to.recv(65536):
                answer += data
        return answer.decode()

    def test_a_worker_without_its_folder_asks_less_and_less_and_says_so(self):
        self.lease(60)  # no pause is longer than half of a heartbeat
        self.up()
        broken = self.worker("broken", "--queue", "default=4", "--metrics-listen", "127.0.0.1:0")
        self.assertIn("200", self.health(broken).splitlines()[0])
        shutil.rmtree(self.dir / "worker-broken")
        self.begin(*[(f"t{i}", f"echo {i} >> done") for i in range(8)])
        self.until_said(broken, "tasks cannot run here")
        time.sleep(5)  # tidy-allow(sleep): long enough for a poll of each second
        begun = self.text(broken).count(" started\n")
        # 4 slots at first, on up to 5 polls; then one after 1, 2 and 4 s.
        self.assertLessEqual(begun, 12, self.text(broken))
        self.assertEqual(self.text(broken).count("tasks cannot run here"), 1)
        said = self.health(broken)
        self.assertIn("503", said.splitlines()[0])
        self.assertIn("trouble tasks: cannot run here: the worker's log says why", said)
        self.assertNotIn("worker-broken", said)
        self.worker("good")
        self.ended()
        self.assertEqual(sorted(map(int, self.lines("done"))), list(range(8)))

    SHIM = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *to) {
  const int done = syscall(SYS_clock_gettime, id, to);
  if (done == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) to->tv_sec += (OFF);
  return done;
}
int gettimeofday(struct timeval *to, void *zone) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  to->tv_sec = now.tv_sec;
  to->tv_usec = now.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *to) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (to) *to = now.tv_sec;
  return now.tv_sec;
}
"""

    def clock_off(self, seconds):
        """A library that a program is to load first, whose wall clock is off by so much then."""
        source = self.write(f"clock{seconds}.c", self.SHIM)
        library = self.dir / f"clock{seconds}.so"
        compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang-19"))))
        subprocess.run([compiler, "-shared", "-fPIC", f"-DOFF={seconds}", "-o", library, source],
                       check=True)
        return str(library)

    def runs_with_a_clock_that_is_off(self, seconds):
        self.lease(2)
        self.up()
        now = time.time()
        token = self.token("--valid", "1m")
        self.env["LD_PRELOAD"] = self.clock_off(seconds)
        payload = self.token().split(".")[1]
        says = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["iat"]
        self.assertAlmostEqual(says - now, seconds, delta=30)  # the program believes it
        worker = self.worker("off", token=token)
        del self.env["LD_PRELOAD"]
        self.begin(("long", "for i in 1 2 3 4 5; do echo $i; sleep 1; done"),
                   ("hangs", "sleep 60", "timeout: 1s", "allow_failure: true"),
                   ("again", "[ -e again ] || { : > again; exit 1; }",
                    "retry: {max_attempts: 2, initial: 1s, jitter: 0}"))
        self.ended()
        self.assertEqual(self.states(),
                         {"long": "succeeded", "hangs": "failed", "again": "succeeded"})
        shown = self.json("runs", "show", "@last")
        tasks = {task["task"]: task for task in shown["tasks"]}
        self.assertEqual(tasks["hangs"]["reason"], "timeout")
        self.assertEqual({name: (task["tries"], task["losses"]) for name, task in tasks.items()},
                         {"long": (1, 0), "hangs": (1, 0), "again": (2, 0)})
        at = {name: [] for name in tasks}
        for attempt in shown["attempts"]:
            began, ended = map(instant, (attempt["started_at"], attempt["ended_at"]))
            self.assertLess(now - 1, began)
            self.assertLess(ended, time.time() + 1)
            at[attempt["task"]].append((began, ended))
        self.assertGreaterEqual(at["hangs"][0][1] - at["hangs"][0][0], 0.9)
        self.assertGreaterEqual(at["again"][1][0] - at["again"][0][1], 0.9)
        lines = [json.loads(line) for line in
                 self.hw("runs", "logs", "@last", "long", "-o", "json").stdout.splitlines()]
        times = [instant(line["at"]) for line in lines]
        self.assertEqual(len(times), 5)
        began, ended = at["long"][0]
        # What its words took is not known, but little.
        self.assertTrue(began - 1 < times[0] and times[-1] < ended + 1, (began, times, ended))
        for before, after in zip(times, times[1:]):
            self.assertGreater(after - before, 0.5)
        self.assertNotIn("is stopped", self.text(worker))

    def test_a_worker_whose_clock_is_5_minutes_ahead(self):
        self.runs_with_a_clock_that_is_off(300)

    def test_a_worker_whose_clock_is_5_minutes_behind(self):
        self.runs_with_a_clock_that_is_off(-300)

    def test_a_token_for_no_store_is_none(self):
        self.hw("worker", "token", "create", code=NOT_FOUND)
        self.up()
        typo = self.store.with_name("typo.db")
        said = self.hw("worker", "token", "create", "--store", typo, code=NOT_FOUND).stderr
        self.assertIn(str(typo), said)
        self.assertEqual([each.name for each in self.store.parent.glob("typo*")], [])
        self.assertRegex(self.token(), r"^[^.]+\.[^.]+\.[^.]+$")

    def test_a_lease_alone_brings_its_heartbeats(self):
        del self.env["HEADWORKS_WORKER_HEARTBEAT"]
        self.env["HEADWORKS_WORKER_LEASE"] = "3s"
        self.up()
        self.worker("w")
        self.begin(("a", "sleep 0.1"))
        self.ended()
        said = self.hw("up", "--worker-lease", "10s", "--worker-heartbeat", "5s", code=USAGE).stderr
        self.assertIn("--worker-heartbeat", said)
        self.assertIn("3.3s", said)


if __name__ == "__main__":
    harness.main()
