"""Workers that reach the engine by its store: no address, no token."""
import errno
import os
import socket
import stat

import harness
from harness import NOT_FOUND, OK, REFUSED, USAGE
from workers_test import WorkersCase, gated

NOBODY = 65534


def connects(path, user):
    """The errno of a connection by that user; 0 = it was made."""
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        with socket.socket(socket.AF_UNIX) as to:
            os._exit(to.connect_ex(path))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class WorkersByStoreTest(WorkersCase):
    def up(self, *args):
        self.engine = self.start("up", *args)
        self.until_said(self.engine, "workers of this host: `headworks worker`")
        return self.engine

    def worker(self, name, *args, ready=True):
        process = self.start("worker", "--name", name, "--state-dir",
                             self.dir / f"worker-{name}", *args)
        if ready:
            self.until_said(process, "registered as")
        return process

    @property
    def folder(self):
        return self.store.with_name(self.store.name + "-workers")

    def test_tasks_run_without_address_and_token(self):
        self.up()
        worker = self.worker("w")
        self.assertIn(f"worker w connects to the engine of {self.store}\n", self.text(worker))
        self.begin(("a", "echo '{\"n\": 41}' > $HEADWORKS_OUTPUT"),
                   ("b", "echo n is ${{ needs.a.output.n + 1 }}", "needs: [a]"))
        self.ended()
        self.assertIn("n is 42\n", self.log())
        self.until(lambda: [each["worker"] for each in self.json("workers", "list")] == ["w"],
                   "it is written down")
        mode = os.stat(self.folder).st_mode
        self.assertEqual(stat.S_IMODE(mode), 0o700)
        worker.terminate()
        self.assertIn("left", self.ends(worker, OK))
        self.engine.terminate()
        self.ends(self.engine, OK)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_signals_are_heard_while_nobody_reads_the_output(self):
        self.up()
        worker = self.start_unread("worker", "--name", "w", "--state-dir", "w")
        self.begin(("a", "echo hi"))
        self.ended()
        self.leaves(worker, OK)

    def test_the_store_may_be_named(self):
        del self.env["HEADWORKS_STORE"]
        self.engine = self.start("up", "--store", self.store)
        self.until_said(self.engine, f"`headworks worker --store {self.store}`")
        self.worker("w", "--store", self.store)
        self.env["HEADWORKS_STORE"] = str(self.store)
        self.begin(("a", "true"))
        self.ended()

    def test_an_engine_that_is_killed_costs_nothing(self):
        self.up()
        worker = self.worker("w")
        self.begin(("a", f"echo before; {gated('a')}; echo after"), ("b", "echo b", "needs: [a]"))
        self.until_exists("a.here")
        self.kill(self.engine)
        self.assertTrue(stat.S_ISSOCK(os.stat(self.folder / "rpc").st_mode))
        self.write("a.go", "")
        self.until_said(worker, "/a of run 1, try 1 succeeded")
        self.until_said(worker, f"no answer from the engine of {self.store}")
        self.up()
        self.ended()
        self.assertEqual(len(self.lines("a.here")), 1)
        for line in ("before", "after", "b"):
            self.assertEqual(self.log().count(line + "\n"), 1, self.log())
        self.assertIsNone(worker.poll())

    def test_whoever_follows_a_run_is_not_in_the_way_of_the_next_engine(self):
        self.up()
        self.worker("w")
        follows = self.start("run", self.flow(("a", gated("a"))))
        self.until_exists("a.here")
        self.kill(self.engine)
        self.until_said(follows, "`headworks up` continues the run")
        self.write("a.go", "")
        self.up()
        self.assertIn("succeeded", self.ends(follows, OK))
        self.assertNotIn("takes over", self.text(follows))
        self.assertEqual(len(self.lines("a.here")), 1)

    def test_a_worker_waits_for_its_engine(self):
        self.hw("queue", "set", "mail", "--max-depth", "9")  # makes the store
        worker = self.worker("early", ready=False)
        self.until_said(worker, f"no answer from the engine of {self.store}")
        self.up()
        self.until_said(worker, "registered as")
        self.begin(("a", "true"))
        self.ended()

    def test_both_ways_at_once(self):
        self.up("--rpc-listen", "127.0.0.1:0")
        self.until_said(self.engine, "workers connect to ")
        server = self.text(self.engine).split("workers connect to ")[1].split()[0]
        self.worker("near", "--queue", "near")
        self.env["HEADWORKS_WORKER_TOKEN"] = self.token()
        self.worker("far", "--queue", "far", "--server", server)
        self.begin(("a", "true", "queue: near"), ("b", "true", "queue: far"))
        self.ended()

    def test_a_second_engine_leaves_the_socket_alone(self):
        self.up()
        before = os.stat(self.folder / "rpc")
        self.hw("up", code=REFUSED)
        after = os.stat(self.folder / "rpc")
        self.assertEqual((before.st_ino, before.st_ctime_ns), (after.st_ino, after.st_ctime_ns))
        self.worker("w")
        self.begin(("a", "true"))
        self.ended()

    def test_the_path_of_the_store_may_be_long(self):
        self.store = self.dir / ("d" * 200) / ("n" * 200)
        self.env["HEADWORKS_STORE"] = str(self.store)
        self.up()
        self.worker("w")
        self.begin(("a", "true"))
        self.ended()

    def test_a_tenant_is_the_workers_own(self):
        self.env["HEADWORKS_TENANT"] = "acme"
        self.up()
        self.worker("w")
        self.begin(("a", "true"))
        self.ended()
        other = self.worker("o", "--tenant", "other")
        self.begin(("a", "true"), name="more")
        self.ended()
        self.assertNotIn(" of run ", self.text(other))

    def test_other_users_are_kept_out(self):
        if os.geteuid() != 0:
            self.skipTest("only root can be somebody else")
        self.up()
        for folder in (self.dir, self.store.parent):
            folder.chmod(0o755)
        path = str(self.folder / "rpc")
        self.assertEqual(connects(path, os.geteuid()), 0)
        self.assertEqual(connects(path, NOBODY), errno.EACCES)
        os.chown(self.store, NOBODY, NOBODY)
        said = self.hw("worker", "--name", "w", code=REFUSED).stderr
        self.assertIn(f"is user {NOBODY}'s", said)
        os.chown(self.store, 0, 0)
        self.folder.chmod(0o711)
        said = self.hw("worker", "--name", "w", code=REFUSED).stderr
        self.assertIn("must belong to this user and be mode 0700", said)

    def test_what_is_no_store_is_said(self):
        said = self.hw("worker", code=NOT_FOUND).stderr
        self.assertIn(f"there is no store {self.store}", said)
        self.assertFalse(self.folder.parent.exists())
        said = self.hw("worker", "--store", "memory:", code=USAGE).stderr
        self.assertIn("memory:", said)
        said = self.hw("up", "--store", "memory:", code=USAGE).stderr
        self.assertIn("none reaches memory:", said)

    def test_name_of_a_worker_is_no_pattern(self):
        said = self.hw("worker", "--name", "a b", code=USAGE).stderr
        self.assertEqual(said, "headworks: --name: 'a b' is no name of a worker: 1 to 64 letters, "
                               "digits, '-' and '_'\n")

    def test_options_that_do_not_go_together(self):
        self.up()
        said = self.hw("worker", "--server", "127.0.0.1:1", "--store", self.store,
                       code=USAGE).stderr
        self.assertIn("give one", said)
        for option in ("--token-file", "--tls-ca"):
            said = self.hw("worker", option, "x", code=USAGE).stderr
            self.assertIn("are for --server", said)
        # That of the environment is every command's.
        said = self.hw("worker", "--server", "127.0.0.1:1", code=USAGE).stderr
        self.assertIn("a worker needs a token", said)


if __name__ == "__main__":
    harness.main()
