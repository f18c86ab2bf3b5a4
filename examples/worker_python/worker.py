"""A Headworks worker in Python: runs the commands of one queue.  See README.md."""
import argparse, json, os, pathlib, secrets, signal, tempfile, threading, time
from contextlib import suppress
from subprocess import DEVNULL, PIPE, STDOUT, Popen
import grpc
from headworks.worker.v1 import worker_pb2 as pb, worker_pb2_grpc

FINAL = ("UNAUTHENTICATED", "PERMISSION_DENIED", "INVALID_ARGUMENT", "FAILED_PRECONDITION")


class Worker:
    def __init__(self, args):
        self.who = pb.Identity(tenant=args.tenant, worker=args.name,
                               incarnation=secrets.token_hex(8))
        self.queue, self.slots = args.queue, args.slots
        self.stub = worker_pb2_grpc.WorkerStub(grpc.insecure_channel(
            args.server, [("grpc.max_reconnect_backoff_ms", 1000)]))
        self.metadata = [("authorization", "Bearer " + os.environ["HEADWORKS_WORKER_TOKEN"])]
        self.draining = threading.Event()
        self.register()

    def call(self, name, tries=10**9, timeout=20, **fields):  # one answer, however often it takes
        request = getattr(pb, name + "Request")(**fields)
        for attempt in range(tries):
            try:
                answer = getattr(self.stub, name)(request, timeout=timeout, metadata=self.metadata)
                if getattr(answer, "reply", None) not in (pb.REPLY_ASK_AGAIN, pb.REPLY_UNSPECIFIED):
                    return answer
            except grpc.RpcError as error:
                code = error.code().name
                said = "headworks-engine" in dict(error.trailing_metadata() or ())  # else a proxy's
                if code == "NOT_FOUND":
                    self.register()  # the engine was restarted
                elif (code in (FINAL if name in ("Register", "Poll") else FINAL[1:]) if said else
                      code == "RESOURCE_EXHAUSTED" and "larger than max" in str(error.details())):
                    raise
            time.sleep(min(1, 0.1 * 2 ** min(attempt, 6)))

    def register(self, **how):
        welcome = self.call("Register", who=self.who, slots={self.queue: self.slots},
                            host=os.uname().nodename, protocol=1, **how)
        self.lease, self.beat = welcome.lease_us / 1e6, welcome.heartbeat_every_us / 1e6

    def run(self):
        while not self.draining.is_set():
            polled = self.call("Poll", who=self.who, free={self.queue: 1}, wait_us=1_000_000)
            polled.leave and self.draining.set()  # an operator drains this worker
            for each in polled.assignments:
                began = time.monotonic()
                with suppress(grpc.RpcError):  # refused: it is another's by now
                    started = self.call("Start", who=self.who, start_token=each.start_token)
                    if started.reply == pb.REPLY_GO_ON:
                        Attempt(self, started, began).run()


class Attempt:
    def __init__(self, worker, started, began):
        self.worker, self.job, self.token = worker, started.job, started.work_token
        self.stop, self.why, self.heard, self.lease = None, 0, began, worker.lease
        self.kill_at, self.over = float("inf"), threading.Event()
        self.flow = json.loads(self.job.definition_json)
        self.grace = self.flow["tasks"][0].get("grace_us", 10_000_000) / 1e6

    def run(self):
        try:
            outcome = self.execute()
        except Exception as error:  # no such program, a bad output, a bug: a try, but not the slot
            outcome = dict(verdict=pb.VERDICT_RETRY, reason=19, error=repr(error)[:2000].encode())
        self.worker.call("Complete", work_token=self.token, outcome=outcome)

    def execute(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "input").write_text(self.job.context_json)
            output = pathlib.Path(folder, "output")
            argv, cwd, env = self.command()
            env |= {"HEADWORKS_INPUT": f"{folder}/input", "HEADWORKS_OUTPUT": str(output)}
            process = Popen(argv, cwd=cwd or None, env=env, start_new_session=True,
                            stdin=DEVNULL, stdout=PIPE, stderr=STDOUT)
            (watch := threading.Thread(target=self.watch, args=(process,))).start()
            try:  # lines go before the verdict, what is longer than one may be in pieces
                for number, text in enumerate(iter(lambda: process.stdout.readline(65536), b""), 1):
                    self.worker.call("Log", work_token=self.token, lines=[dict(
                        number=number, stream=pb.STREAM_STDOUT, bytes=text.rstrip(b"\n"),
                        at_us=int(time.time() * 1e6))])
            except Exception:
                os.killpg(process.pid, signal.SIGKILL)
                raise
            finally:
                code = process.wait()
                watch.join(self.over.set())
            out = output.read_bytes() if output.exists() and not (self.stop or code) else b""
            return dict(verdict=self.stop or (pb.VERDICT_RETRY if code else pb.VERDICT_SUCCEEDED),
                        reason=self.why or 2 * (code > 0), error=b"exit %d" % code * bool(code),
                        output=out and json.dumps(dict(json.loads(out))).encode())

    def command(self):
        own = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        own["HEADWORKS_IDEMPOTENCY_KEY"] = self.job.idempotency_key
        r, t = self.job.rendered, self.flow["tasks"][0]  # the one wins over the other
        env = {**own, **self.flow.get("env", {}), **t.get("env", {}), **r.workflow_env, **r.env}
        sh = ["/bin/sh", "-ec", r.shell.script or t.get("run")]
        return list(r.exec.argv) or t.get("exec") or sh, r.cwd or t.get("cwd"), env | dict(r.bound)

    def end(self, process, verdict, reason, at_once):  # TERM, and after the grace KILL
        self.kill_at = min(self.kill_at, time.monotonic() + (0 if at_once else self.grace))
        with suppress(ProcessLookupError):  # it is over
            if not self.stop:  # the first call says how the attempt ended
                self.stop, self.why = verdict, reason
                os.killpg(process.pid, signal.SIGTERM)
            time.monotonic() >= self.kill_at and os.killpg(process.pid, signal.SIGKILL)

    def watch(self, process):
        unknown, timeout_at = False, time.monotonic() + (self.job.timeout_us / 1e6 or float("inf"))
        while not self.over.wait(min(0.2, self.worker.beat)):
            said = time.monotonic()
            beat = pb.HeartbeatRequest(who=self.worker.who, work_tokens=[self.token])
            try:
                unknown = unknown and self.worker.register(tries=1, timeout=self.worker.beat)
                pulse = self.worker.stub.Heartbeat(beat, timeout=self.worker.beat,
                                                   metadata=self.worker.metadata).pulses[0]
                self.token = pulse.work_token or self.token
                if pulse.reply in (pb.REPLY_GO_ON, pb.REPLY_CANCEL):
                    self.heard, self.lease = said, self.worker.lease
                if pulse.reply in (pb.REPLY_STOP, pb.REPLY_CANCEL):
                    self.end(process, pb.VERDICT_CANCELLED, 9, pulse.reply == pb.REPLY_STOP)
            except Exception as error:  # whoever is not heard ends by its lease, below
                unknown = getattr(error, "code", str)() == grpc.StatusCode.NOT_FOUND
            if time.monotonic() > self.heard + self.lease * 2 / 3:  # before it is another's
                self.end(process, pb.VERDICT_INTERRUPTED, 0, True)
            elif self.stop or time.monotonic() > timeout_at:
                self.end(process, pb.VERDICT_RETRY, 4, False)


def main():
    parser = argparse.ArgumentParser()
    for name, usual in (("server", "127.0.0.1:7070"), ("tenant", "public"), ("queue", "default"),
                        ("name", "python"), ("slots", 2)):
        parser.add_argument("--" + name, default=usual, type=type(usual))
    worker = Worker(parser.parse_args())
    signal.signal(signal.SIGTERM, lambda *_: worker.draining.set())
    threads = [threading.Thread(target=worker.run) for _ in range(worker.slots)]
    [thread.start() for thread in threads]
    print("ready", flush=True)
    [thread.join() for thread in threads]
    worker.call("Leave", who=worker.who)


if __name__ == "__main__":
    main()
