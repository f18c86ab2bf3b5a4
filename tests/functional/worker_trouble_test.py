"""Workers in trouble of their own, and engines that change their mind about them."""
import os
import re
import shutil
import socket
import time

import harness
from fault_proxy import FaultProxy
from harness import NOT_FOUND, USAGE
from workers_test import WorkersCase, gated


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
