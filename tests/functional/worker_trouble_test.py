"""Workers in trouble of their own, and engines that change their mind about them."""
import os
import time

import harness
from fault_proxy import FaultProxy
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


if __name__ == "__main__":
    harness.main()
